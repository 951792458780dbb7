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
}

export interface Common {
  configuration: Record<string, any>;
  context: { id: string; overrides_tag: string; run_id: string; candidate_id: string };
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
