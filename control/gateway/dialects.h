#pragma once
// Which class shows an answer in which API.

#include "control/gateway/common/answer_forms.h"

namespace holdfast::gateway {

/// Returns the forms of every API of the gateway. Lives as long as the process.
const AnswerForms& answer_forms();

}  // namespace holdfast::gateway
