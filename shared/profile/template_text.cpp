#include "shared/profile/template_text.h"

#include "shared/go_template/translate.h"

namespace holdfast::profile {

Result<std::string> template_as_jinja(std::string_view text) {
  if (text.find("{%") != std::string_view::npos) return std::string(text);
  return go_template::to_jinja(text);
}

}  // namespace holdfast::profile
