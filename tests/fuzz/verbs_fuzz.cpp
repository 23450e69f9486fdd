// Goal: the verbs that the console may send to the daemon are read or refused in words, whatever
// their arguments are. Method: the first byte selects the verb, the others are decisions
// (json_maker.h) or, by the second, the arguments themselves.

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "control/operator/operator_verbs.h"
#include "shared/base/bytes.h"
#include "shared/base/check.h"
#include "shared/wire/frame.h"
#include "tests/fuzz/body_members.h"

namespace {

using namespace holdfast;

constexpr const char* kVerbs[] = {"models.add",
                                  "models.remove",
                                  "models.golden",
                                  "models.alias",
                                  "models.alias_remove",
                                  "models.canary",
                                  "models.canary_promote",
                                  "models.canary_rollback",
                                  "requests.cancel",
                                  "requests.move",
                                  "requests.requeue",
                                  "workers.drain",
                                  "config.set",
                                  "config.unset",
                                  "config.rollback",
                                  "queue.pause",
                                  "supervisor.worker_exit",
                                  "shutdown",
                                  "status",
                                  "models.list",
                                  "objects.get",
                                  "ids.derive",
                                  ""};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Choices choices(data, size);
  wire::Op op;
  op.verb = choices.from(kVerbs);
  op.tag = 7;
  if (choices.likely(1)) {
    op.args = choices.rest();
  } else {
    fuzz::JsonMaker(choices, fuzz::kVerbMembers, &op.args).object(0);
  }
  const daemon::OpAction action = daemon::read_op(1, op);
  if (const auto* refusal = std::get_if<wire::Refusal>(&action)) {
    CHECK(refusal->code == Errc::kUsage && !refusal->message.empty());
    CHECK(refusal->message.starts_with(op.verb));
  }
  op.tenant = "t";
  (void)daemon::refuse_tenant(op);
  return 0;
}
