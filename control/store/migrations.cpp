#include "control/store/migrations.h"

#include "schema_sql.h"

namespace holdfast::store {

const char* const* migrations() {
  return kMigrations;
}

}  // namespace holdfast::store
