// Goal: bodies of the right form with wrong values neither crash the readers of the endpoints nor
// become much larger than they are. Method: the bytes are decisions (json_maker.h): the first
// selects the endpoint, the others its members and their values; body_fuzz has bodies byte by byte.

#include <cstddef>
#include <cstdint>
#include <string>

#include "control/gateway/anthropic/message_body.h"
#include "control/gateway/common/params.h"
#include "tests/fuzz/body_check.h"
#include "tests/fuzz/body_members.h"

using namespace holdfast;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static constexpr fuzz::ParseBody kReaders[] = {gateway::parse_completion, gateway::parse_chat,
                                                 gateway::parse_message, gateway::parse_embedding,
                                                 fuzz::parse_turn};
  fuzz::Choices choices(data, size);
  const unsigned which = choices.below(std::size(kReaders));
  const fuzz::BodyForm& form = fuzz::kForms[which];
  std::string body;
  fuzz::JsonMaker(choices, form.members, &body).object(form.required);
  fuzz::check_body(body, kReaders[which]);
  return 0;
}
