#include "control/gateway/common/model_binding.h"

#include "control/gateway/common/thinking_fields.h"
#include "control/gateway/common/tool_fields.h"
#include "shared/chat/output_parser.h"

namespace holdfast::gateway {
namespace {

/// Sets how the output begins if no answer is opened for it.
void begin_output(const Generation& generation, chat::OutputKind* kind) {
  kind->opens_reasoning = false;
  if (!generation.prefill || generation.prefill == chat::Prefill::kEmpty) return;
  if (generation.prefill == chat::Prefill::kThinking && kind->reasoning) {
    kind->opens_reasoning = true;
    return;
  }
  kind->reasoning = false;
  kind->goes_on = true;
}

/// Makes the opening of reasoning in the prompt follow the client's switch.
void follow_switch(const ThinkingOptions& thinking, chat::OutputKind* kind) {
  if (!thinking.on || !kind->reasoning) return;
  kind->opens_reasoning = *thinking.on ? kind->opens_when_on : kind->opens_when_off;
}

}  // namespace

void bind_to_model(Generation* generation) {
  if (generation->thinking.on || !generation->opens_answer) {
    chat::OutputKind kind = chat::read_output(generation->shape.output);
    follow_switch(generation->thinking, &kind);
    if (!generation->opens_answer) begin_output(*generation, &kind);
    kind.opens_when_on = kind.opens_when_off = kind.opens_reasoning;
    generation->shape.output = chat::write_output(kind);
  }
  bind_thinking(generation);
  bind_to_calls(generation);
}

}  // namespace holdfast::gateway
