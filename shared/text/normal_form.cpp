#include "shared/text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>

namespace holdfast::text {

Result<NormalForm> read_normal_form(const gguf::File& file) {
  constexpr std::string_view kKey = "tokenizer.holdfast.form";
  if (!file.has(kKey)) return NormalForm::kNone;
  const auto form = file.get_string(kKey);
  if (form == "nfc") return NormalForm::kNfc;
  if (form == "nfkc") return NormalForm::kNfkc;
  return Error{Errc::kFileInvalid, "load tokenizer " + std::string(file.name()) + ": " +
                                       std::string(kKey) + ": expected nfc or nfkc"};
}

std::string_view in_normal_form(NormalForm form, std::string_view text, std::string& buffer) {
  const auto wide = [](char c) { return static_cast<unsigned char>(c) >= 0x80; };
  if (form == NormalForm::kNone || std::none_of(text.begin(), text.end(), wide)) return text;
  const int options =
      UTF8PROC_STABLE | UTF8PROC_COMPOSE | (form == NormalForm::kNfkc ? UTF8PROC_COMPAT : 0);
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                             static_cast<utf8proc_ssize_t>(text.size()), &out,
                                             static_cast<utf8proc_option_t>(options));
  if (size >= 0) buffer.assign(reinterpret_cast<const char*>(out), static_cast<std::size_t>(size));
  std::free(out);
  return size >= 0 ? std::string_view(buffer) : text;
}

}  // namespace holdfast::text
