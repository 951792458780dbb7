# Creates Temporal's two databases, or brings them to this server's version. Changes nothing when they are there already.
# SQL_HOST, SQL_PORT, SQL_USER and SQL_PASSWORD come from the environment.
set -eu
for part in temporal visibility; do
  case "$part" in
    temporal) database=temporal ;;
    visibility) database=temporal_visibility ;;
  esac
  tool() { temporal-sql-tool --plugin postgres12 --db "$database" "$@"; }
  tool create
  tool setup-schema -v 0.0
  tool update-schema -d "/etc/temporal/schema/postgresql/v12/$part/versioned"
done
