#include "control/core/recovery.h"

#include <algorithm>
#include <string>
#include <utility>

#include "control/core/admission.h"
#include "control/core/canaries.h"
#include "control/core/lifecycle.h"
#include "control/core/registry.h"

namespace holdfast::core {

void Recovery::on(const Recall& event) {
  if (lifecycle_.requests().by_id(event.request.row.id) != nullptr) return;
  if (wire::is_terminal(event.request.row.state)) {
    take_in(event.request);
    return;
  }
  // Live requests are all in memory, but for those of the queue that are still to be read.
  CHECK_MSG(lifecycle_.unread() > 0, "a live request is not in memory");
  lifecycle_.set_unread(lifecycle_.unread() - 1);
  bring_in_late(event.request);
  core_.want_dispatch = true;
}

void Recovery::on(const BootQueuePage& event) {
  for (const BootRequest& request : event.requests) {
    if (lifecycle_.requests().by_seq(request.row.seq) != nullptr)
      continue;  // recalled, and maybe ended since
    lifecycle_.set_unread(std::max<std::int64_t>(lifecycle_.unread() - 1, 0));
    bring_in_late(request);
  }
  if (event.last) lifecycle_.set_unread(0);
  for (auto& [name, model] : registry_.models()) {
    if (model.row.state == ModelState::kFailed && !event.requests.empty())
      lifecycle_.fail_waiting(model);
  }
  core_.want_dispatch = true;
}

/// Takes in a request that was read after the start. Running ones were in Boot; a worker that was
/// asked about this one has been told to drop it.
void Recovery::bring_in_late(const BootRequest& boot) {
  bring_in(boot);
  Request* in = lifecycle_.requests().by_seq(boot.row.seq);
  for (Choice& choice : in->choices) {
    if (choice.phase == ChoicePhase::kAdopting) lifecycle_.requeue(*in, choice, "not adopted");
  }
}

void Recovery::bring_in(const BootRequest& boot) {
  Request& in = take_in(boot);
  core_.counters.recovered += !in.terminal();
  lifecycle_.arm_request(in);
  if (in.row.canary != 0) canaries_.reroute_late(in);
  if (!boot.damaged.empty()) on(RowsDamaged{in.row.seq, boot.damaged});
}

Request& Recovery::take_in(const BootRequest& boot) {
  Request request;
  request.row = boot.row;
  request.sampling = boot.sampling;
  request.stops = boot.stops;
  request.echo = boot.echo;
  request.meta = boot.meta;
  request.prompt_tokens = boot.prompt_tokens;
  request.payload_bytes = text_bytes(boot.meta, boot.sampling, boot.stops);
  for (const std::int64_t tokens : boot.prompt_tokens) request.payload_bytes += tokens * 4;
  // By the wall clock: an earlier process shares no other one.
  const std::int64_t age_ms = std::max<std::int64_t>(core_.now.wall_ms - boot.row.created_ms, 0);
  request.submitted_us = request.accepted_us = core_.now.mono_us - age_ms * 1000;
  const auto monotonic = [&](std::int64_t wall_deadline) {
    return wall_deadline == 0 ? 0 : core_.now.mono_us + (wall_deadline - core_.steady_ms()) * 1000;
  };
  if (boot.row.started_ms == 0) request.queue_deadline_us = monotonic(boot.row.queue_deadline_ms);
  request.total_deadline_us = monotonic(boot.row.total_deadline_ms);
  if (!request.terminal() && boot.row.on_disconnect == wire::OnDisconnect::kCancel) {
    request.orphan_deadline_us =
        core_.now.mono_us + core_.config.requests_disconnect_grace_ms * 1000;
  }
  request.choices.resize(boot.choices.size());
  for (std::size_t i = 0; i < boot.choices.size(); ++i) {
    request.choices[i].row = boot.choices[i].row;
    request.choices[i].phase = ChoicePhase::kEnded;
  }
  Request& in = lifecycle_.insert(std::move(request));
  if (in.terminal()) return in;
  for (std::size_t i = 0; i < boot.choices.size(); ++i) {
    boot_choice(in, in.choices[i], boot.choices[i]);
  }
  return in;
}

/// Takes in a choice that had not ended: it waits for its worker inside the adoption window, or is
/// queued.
void Recovery::boot_choice(Request& request, Choice& choice, const BootChoice& boot) {
  if (choice.row.finish != FinishReason::kNone) return;
  choice.ids = boot.ids;
  choice.noted = !boot.ids.empty();
  if (request.row.state == RequestState::kQuarantined) {
    choice.phase = ChoicePhase::kQueued;
    return;
  }
  choice.resumed = boot.has_attempt || choice.row.next_index > 0 || request.row.started_ms != 0;
  if (!boot.has_attempt) {
    lifecycle_.enqueue(request, choice);
    return;
  }
  choice.phase = ChoicePhase::kAdopting;
  choice.fence = boot.fence;
  choice.worker_key = boot.worker_key;
  choice.incarnation = boot.incarnation;
  choice.load_id = boot.load_id;
  lifecycle_.count_running(request, choice);
}

void Recovery::on(const RowsDamaged& event) {
  Request* request = lifecycle_.requests().by_seq(event.seq);
  if (request == nullptr || request->terminal()) return;
  core_.out->note("stored rows of a request are damaged",
                  {{"request", request->row.id}, {"why", event.why}}, true);
  lifecycle_.end_request(*request, FinishReason::kError, std::string(errc_name(Errc::kCorrupt)),
                         event.why, true);
}

void Recovery::boot(const Boot& event) {
  lifecycle_.set_unread(event.unread);
  lifecycle_.keys().restore(event.keys, core_.now);
  for (const BootRequest& request : event.requests) bring_in(request);
}

}  // namespace holdfast::core
