import { readFile } from 'node:fs/promises';
import { Client, Connection } from '@temporalio/client';
import type { Progress, Result, UpdateAnswer } from './contract.js';

// node dist/client.js SPEC.json RUN_ID: starts the run of a spec, asks where it stands, changes a limit, and waits for its result.
const [file, workflowId] = process.argv.slice(2);
if (file === undefined || workflowId === undefined) {
  throw new Error('usage: node dist/client.js SPEC.json RUN_ID');
}
const connection = await Connection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
try {
  const client = new Client({ connection, namespace: process.env.TEMPORAL_NAMESPACE ?? 'default' });
  const spec = JSON.parse(await readFile(file, 'utf8'));
  // The spec is the workflow's input. The Workflow Id is the run's id: `ratchet watch RUN_ID` shows it.
  const run = await client.workflow.start('OptimizationWorkflow', { taskQueue: 'optimization', workflowId, args: [spec] });
  const adjusted = await run.executeUpdate<UpdateAnswer, [object]>('adjust', { args: [{ concurrent_samples: 4 }] });
  const progress = await run.query<Progress>('progress');
  console.error(`${progress.name}: ${progress.status}, round ${progress.round}, ${adjusted.message}`);
  const result = (await run.result()) as Result;
  console.log(JSON.stringify({ ...result, asked: progress.optimization_id }));
} finally {
  await connection.close();
}
