#pragma once
// multipart/form-data (RFC 7578), as browsers and OpenAI's clients send files.

#include <string>
#include <string_view>
#include <vector>

#include "control/gateway/http/errors.h"

namespace holdfast::gateway {

/// One part of a form.
struct FormPart {
  std::string name;
  std::string filename;   // empty: a plain field
  std::string_view data;  // a view into the body
};

/// Returns the parts in order, at most 64. Returns false if the body or its type is wrong; `error`
/// says how.
bool parse_form(std::string_view content_type, std::string_view body, std::vector<FormPart>* out,
                FieldError* error);

}  // namespace holdfast::gateway
