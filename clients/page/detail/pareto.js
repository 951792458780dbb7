// Gains in several objectives against each other. (Engineer `detail` builds it.)

/** Whether there is anything to show. */
export const hasPareto = () => false;

export function mount() {
  return () => {};
}
