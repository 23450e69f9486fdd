#include "ops/sdk/node/addon/handles.h"

namespace holdfast::node {

std::string text_of(napi_env env, napi_value value) {
  std::size_t size = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &size) != napi_ok) return "";
  std::string out(size, '\0');
  napi_get_value_string_utf8(env, value, out.data(), size + 1, &size);
  return out;
}

bool is_nothing(napi_env env, napi_value value) {
  napi_valuetype type = napi_undefined;
  napi_typeof(env, value, &type);
  return type == napi_undefined || type == napi_null;
}

Refusal take_error(const Library& functions, holdfast_error* error) {
  Refusal out{functions.error_code(error), functions.error_message(error),
              functions.error_retry_after_ms(error)};
  functions.error_free(error);
  return out;
}

}  // namespace holdfast::node
