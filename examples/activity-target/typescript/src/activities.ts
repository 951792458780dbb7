import { ApplicationFailure, heartbeat } from '@temporalio/activity';
import type { Answer, BatchCall, Call, Common, Sample } from './contract.js';

/** One sample, one answer. */
export async function answerTicket(call: Call): Promise<Answer> {
  return label(call, call.sample);
}

/** A batch: as many answers as samples, in their order. */
export async function answerTickets(call: BatchCall): Promise<Answer[]> {
  return call.samples.map((sample) => {
    heartbeat();
    return label(call, sample);
  });
}

/** Stands for your model, agent or service: the more of a ticket's words the prompt knows, the more labels it gets right. */
function label({ configuration, context }: Common, sample: Sample): Answer {
  const began = performance.now();
  const prompt = sample.prompt ?? configuration.prompt ?? configuration.system_prompt;
  if (typeof prompt !== 'string') {
    // The configuration is to blame, and another attempt would not help: the sample counts as failed.
    throw ApplicationFailure.nonRetryable('system_prompt is missing');
  }
  const shortest = context.flags.shortest_word ?? 4;
  const known = prompt.toLowerCase().split(/\W+/);
  const words: string[] = String(sample.input.ticket).toLowerCase().split(/\W+/);
  return {
    value: words.find((word) => word.length >= shortest && known.includes(word)) ?? 'other',
    tokens: words.length,
    latency_ms: performance.now() - began,
    overlay_hash: context.overrides_tag,
  };
}
