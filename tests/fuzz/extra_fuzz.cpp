// Goal: the sampling fields of a body, and the grammar with them, are read or refused in words, by
// the gateway, the ingress helper and the worker alike: they have the same reader. Method: the
// bytes are decisions (json_maker.h) or, by the first byte, the JSON itself.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/grammar/request.h"
#include "shared/sampling/extra.h"
#include "tests/fuzz/json_maker.h"

namespace {

using namespace holdfast;

constexpr fuzz::Member kMembers[] = {{"embedding", R"({"normalize":@,"pooling":"cls"})"},
                                     {"embedding", "@"},
                                     {"logit_bias", R"({"5":-1,~:@})"},
                                     {"logit_bias", R"({"0":1e308,"7":@,"7":2})"},
                                     {"repeat_last_n", "-1"},
                                     {"typical_p", "0.5"},
                                     {"top_n_sigma", "1"},
                                     {"dry_multiplier", "0.8"},
                                     {"dry_base", "@"},
                                     {"dry_allowed_length", "2"},
                                     {"dry_penalty_last_n", "@"},
                                     {"dry_sequence_breakers", "[%~%]"},
                                     {"xtc_probability", "0.5"},
                                     {"xtc_threshold", "@"},
                                     {"mirostat", "2"},
                                     {"mirostat_tau", "5"},
                                     {"mirostat_eta", "@"},
                                     {"banned_strings", "[%~%]"},
                                     {"samplers", R"(["top_k","dry","min_p"])"},
                                     {"samplers", "[%~%]"},
                                     {"grammar", R"({"kind":"json_schema","source":^,"finish":@})"},
                                     {"grammar", R"({"kind":~,"source":~})"},
                                     {"grammar", "@"}};

void check_extra(const std::string& text, std::int32_t vocab) {
  const auto extra = sampling::parse_extra(text, vocab);
  if (!extra) {
    CHECK(!extra.error().what.empty() && is_valid_utf8(extra.error().what));
    return;
  }
  for (const auto& [id, bias] : extra->logit_bias) {
    CHECK(id >= 0 && id < vocab && std::isfinite(bias));
  }
  CHECK(std::isfinite(extra->typical_p) && std::isfinite(extra->top_n_sigma));
  CHECK(std::isfinite(extra->dry_multiplier) && std::isfinite(extra->dry_base));
  CHECK(std::isfinite(extra->mirostat_tau) && std::isfinite(extra->mirostat_eta));
  for (const std::string& banned : extra->banned_strings) CHECK(!banned.empty());
  (void)extra->needs_sampler_chain();
}

void check_grammar(const std::string& text) {
  const auto parsed = grammar::read_extra(text);
  if (!parsed) {
    CHECK(!parsed.error().what.empty() && is_valid_utf8(parsed.error().what));
    return;
  }
  if (!*parsed) return;
  const auto again = grammar::read_extra(grammar::extra_of(**parsed));
  CHECK(again && *again);
  CHECK((*again)->kind == (*parsed)->kind && (*again)->source == (*parsed)->source);
  CHECK((*again)->finish == (*parsed)->finish);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(data, size);
  std::string text;
  if (choices.likely(1)) {
    text = choices.rest();
  } else {
    fuzz::JsonMaker(choices, kMembers, &text).object(0);
  }
  check_extra(text, INT32_MAX);
  check_extra(text, 8);
  check_grammar(text);
  return 0;
}
