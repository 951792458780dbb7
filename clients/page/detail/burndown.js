// Budgets: what is spent, and when they will be used up. (Engineer `detail` builds it.)

export function mount() {
  return () => {};
}
