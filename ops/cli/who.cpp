#include "ops/cli/who.h"

#include <pwd.h>
#include <unistd.h>

namespace holdfast::cli {

std::string operator_name() {
  const passwd* user = getpwuid(getuid());
  return user != nullptr ? user->pw_name : "uid " + std::to_string(getuid());
}

}  // namespace holdfast::cli
