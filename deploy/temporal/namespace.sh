# Creates the namespace, once. TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE come from the environment.
set -eu
temporal operator cluster health
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
  temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention 30d
