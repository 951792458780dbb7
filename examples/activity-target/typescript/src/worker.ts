import { NativeConnection, Worker } from '@temporalio/worker';
import * as activities from './activities.js';

const connection = await NativeConnection.connect({ address: process.env.TEMPORAL_ADDRESS ?? 'localhost:7233' });
try {
  const worker = await Worker.create({
    connection,
    namespace: process.env.TEMPORAL_NAMESPACE ?? 'default',
    taskQueue: process.env.TASK_QUEUE ?? 'tickets',
    activities,
    shutdownGraceTime: '10s',
  });
  await worker.run();
} finally {
  await connection.close();
}
