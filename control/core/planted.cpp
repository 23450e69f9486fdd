#include "control/core/planted.h"

namespace holdfast::core {

bool planted(Bug) {
  return false;
}

}  // namespace holdfast::core
