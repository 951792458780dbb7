// What Ratchet sends and what it takes back. ../README.md says what every field means.

export interface Sample {
  id: string;
  input: any;
  expected: any;
  weight: number;
  tags: string[];
  replicate: number;
  /** Derived from the run's seed, the sample and the replicate: pass it on, and the answer can be reproduced. */
  seed: number;
  /** The prompt as rendered for this sample, where the spec has one that takes something of samples. */
  prompt?: string;
}

/** The experiment that a call is part of. */
export interface Experiment {
  /** The trial. */
  id: string;
  name: string;
  /** The hash of the configuration. */
  overrides_tag: string;
  /** The prompt under test, and the hash of what is in force of it; without a prompt null, and the same as `overrides_tag`. */
  prompt: string | null;
  overlay_hash: string;
  /** The baseline's overrides_tag; null in the baseline's own trials. */
  parent_tag: string | null;
  /** The spec's `flags`. */
  flags: Record<string, any>;
  run_id: string;
  candidate_id: string;
}

export interface Common {
  configuration: Record<string, any>;
  context: Experiment;
  execution_params: Record<string, any>;
}

/** With `batch: 1`. */
export interface Call extends Common {
  sample: Sample;
}

/** With `batch: 2` and above. */
export interface BatchCall extends Common {
  samples: Sample[];
}

export type Answer =
  | string
  | {
      value: unknown;
      tokens?: number;
      cost?: number;
      latency_ms?: number;
      ttft_ms?: number;
      trace?: unknown;
      /** The hash of the configuration really used: `context.overrides_tag`, unless something went wrong. */
      overlay_hash?: string;
      scores?: Record<string, number | { value: number; passed?: boolean; reason?: string }>;
    }
  | { error: string; tokens?: number; cost?: number };

// What a run answers. Each has more fields than these.

/** The query `progress`. */
export interface Progress {
  optimization_id: string;
  name: string;
  status: 'initialized' | 'running' | 'paused' | 'completed' | 'failed' | 'cancelled' | 'terminated';
  round: number;
  best_score: number | null;
  baseline_score: number | null;
}

/** The updates `pause`, `resume`, `adjust` and `propose`. */
export interface UpdateAnswer {
  status: Progress['status'];
  message: string;
}

/** The result of the workflow. What it calls the best is the winner where its gain holds, else the baseline. */
export interface Result {
  optimization_id: string;
  status: Progress['status'];
  message: string;
  baseline_score: number | null;
  best_score: number | null;
  best_configuration: Record<string, any>;
  spend: { samples: number; trials: number; tokens: number; cost: number };
}
