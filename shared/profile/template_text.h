#pragma once
// Chat templates as people have them: Jinja, or Go's as Ollama's Modelfiles have them.

#include <string>
#include <string_view>

#include "shared/base/result.h"

namespace holdfast::profile {

/// Returns the Jinja text of a template: the text itself if it is Jinja, the translation of a Go
/// template (shared/go_template). A text without statements of Jinja is one of Go. Errors of the
/// translation.
Result<std::string> template_as_jinja(std::string_view text);

}  // namespace holdfast::profile
