// What the best candidate changes of the baseline, short, for the overview. (Engineer `detail` builds it.)

export function mount() {
  return () => {};
}
