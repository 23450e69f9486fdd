#include "tests/simulation/lib/client_node.h"

#include <algorithm>

namespace holdfast::simulation {
namespace {

constexpr std::int64_t kAnswerUs = 2 * kSecond;  // then it is sent again

}  // namespace

void ClientNode::start() {
  network_.connect(this, Role::kClient);
  for (auto& [index, task] : tasks_) {
    task.got.resize(static_cast<std::size_t>(request(index).choices()));
    world_.after(request(index).at_us - world_.now_us, [this, i = index] { submit(i); });
  }
}

bool ClientNode::done() const {
  return std::all_of(tasks_.begin(), tasks_.end(), [](const auto& item) {
    return item.second.state == State::kFin || item.second.state == State::kGivenUp;
  });
}

std::string ClientNode::open_tasks() const {
  std::string text;
  for (const auto& [index, task] : tasks_) {
    if (task.state == State::kFin || task.state == State::kGivenUp) continue;
    text += " " + request(index).submit.request_id + "(" +
            std::to_string(static_cast<int>(task.state)) + ")";
  }
  return text;
}

void ClientNode::vanish(std::int64_t us) {
  away_until_us_ = world_.now_us + us;
  network_.isolate(this, away_until_us_);
  network_.cut(connection_, world_.random.between(0, 100) * kMs, 1);
}

void ClientNode::on_connected(PeerId connection) {
  connection_ = connection;
  tags_.clear();
  for (auto& [index, task] : tasks_) {
    if (task.state == State::kSubmitted) submit(index);
    if (task.state == State::kAttached) task.state = State::kAccepted;
    if (task.state == State::kAccepted) attach(index);
    if (task.cancel_requested && task.state != State::kFin) cancel(index);
  }
}

void ClientNode::on_lost(PeerId connection) {
  if (connection != connection_) return;
  connection_ = 0;
  tags_.clear();
  network_.connect(this, Role::kClient);
}

void ClientNode::send(wire::Message message) {
  if (connection_ != 0) network_.send_to_daemon(connection_, std::move(message));
}

std::uint64_t ClientNode::ask(int index, Operation what) {
  tags_[++last_tag_] = {index, what};
  return last_tag_;
}

// ---- what it requests

void ClientNode::submit(int index) {
  Task& task = tasks_[index];
  if (task.state > State::kSubmitted) return;
  task.state = State::kSubmitted;
  if (connection_ != 0) {
    if (task.was_sent) world_.hit(Fault::kSubmitRepeated);
    task.was_sent = true;
    auditor_.attempted(index);
    wire::Submit message = request(index).submit;
    message.tag = ask(index, Operation::kSubmit);
    const int times = request(index).repeat && world_.random.below(2) == 0 ? 2 : 1;
    for (int i = 0; i < times; ++i) send(message);
  }
  world_.after(kAnswerUs, [this, index, round = ++task.round] {
    if (tasks_[index].state == State::kSubmitted && tasks_[index].round == round) submit(index);
  });
}

void ClientNode::attach(int index) {
  Task& task = tasks_[index];
  if (connection_ == 0 || task.state != State::kAccepted) return;
  wire::Attach message;
  message.tag = task.tag = ask(index, Operation::kAttach);
  message.request_id = request(index).submit.request_id;
  message.tenant = request(index).submit.tenant;
  task.at = task.got;
  if (request(index).replay && !task.replayed && world_.random.below(3) == 0) {
    world_.hit(Fault::kClientReplayed);
    task.replayed = true;
    for (std::int64_t& at : task.at) at = world_.random.between(0, at);
  }
  task.credited = task.at;
  message.from = task.at;
  message.window = task.window = world_.random.between(1, 12);
  task.state = State::kAttached;
  task.received = false;
  send(std::move(message));
  // The answer may have met a full socket.
  world_.after(kAnswerUs, [this, index, tag = task.tag] {
    Task& waiting = tasks_[index];
    if (waiting.state != State::kAttached || waiting.tag != tag || waiting.received) return;
    waiting.state = State::kAccepted;
    attach(index);
  });
}

void ClientNode::cancel(int index) {
  Task& task = tasks_[index];
  task.cancel_requested = true;
  if (connection_ == 0 || task.state == State::kFin) return;
  world_.hit(Fault::kCancelledByClient);
  wire::Cancel message;
  message.tag = ask(index, Operation::kCancel);
  message.request_id = request(index).submit.request_id;
  message.tenant = request(index).submit.tenant;
  send(std::move(message));
}

/// Another tenant that has the id must not learn that the request exists.
void ClientNode::ask_for_others(int index) {
  if (!request(index).foreign || tasks_[index].foreign_sent) return;
  tasks_[index].foreign_sent = true;
  world_.hit(Fault::kForeignTenant);
  wire::Attach message;
  message.tag = ask(index, Operation::kForeign);
  message.request_id = request(index).submit.request_id;
  message.tenant = "stranger";
  send(std::move(message));
}

// ---- what it is told

void ClientNode::check_id(int index, const std::string& id) {
  if (id == request(index).submit.request_id) return;
  world_.fail("I2 " + request(index).submit.request_id + " is answered with " + id);
}

void ClientNode::on_message(PeerId connection, wire::Message& message) {
  if (connection != connection_) return;
  const auto operation_of = [&](std::uint64_t tag) {
    const auto it = tags_.find(tag);
    return it == tags_.end() ? std::pair(-1, Operation::kSubmit) : it->second;
  };
  if (const auto* m = std::get_if<wire::Accepted>(&message)) {
    if (const auto [index, what] = operation_of(m->tag); index >= 0) accepted(index, *m);
  } else if (const auto* m = std::get_if<wire::Refused>(&message)) {
    if (const auto [index, what] = operation_of(m->tag); index >= 0) refused(index, what, *m);
  } else if (const auto* m = std::get_if<wire::Attached>(&message)) {
    const auto [index, what] = operation_of(m->tag);
    if (what == Operation::kForeign) {
      world_.fail("I8 " + m->info.request_id + " was shown to another tenant");
    } else if (index >= 0) {
      check_id(index, m->info.request_id);
      tasks_[index].received = true;
    }
  } else if (const auto* m = std::get_if<wire::Event>(&message)) {
    if (const auto [index, what] = operation_of(m->tag); index >= 0) {
      check_id(index, m->request_id);
      event(index, *m);
    }
  } else if (const auto* m = std::get_if<wire::Fin>(&message)) {
    if (const auto [index, what] = operation_of(m->tag); index >= 0) {
      check_id(index, m->info.request_id);
      fin(index, *m);
    }
  } else if (const auto* m = std::get_if<wire::StatusReply>(&message)) {
    if (const auto [index, what] = operation_of(m->tag); index >= 0)
      tasks_[index].cancel_requested = false;
  }
}

void ClientNode::accepted(int index, const wire::Accepted& m) {
  Task& task = tasks_[index];
  if (task.state != State::kSubmitted) return;
  if (m.info.request_id != request(index).submit.request_id) {
    // Its key was taken by a request with the same body: that one is the answer.
    const auto first = std::find_if(requests_.begin(), requests_.end(), [&](const SimRequest& w) {
      return w.submit.request_id == m.info.request_id;
    });
    const wire::Submit& mine = request(index).submit;
    const bool same = first != requests_.end() && !mine.idem_key.empty() &&
                      first->submit.idem_key == mine.idem_key &&
                      first->submit.tenant == mine.tenant &&
                      first->submit.body_hash == mine.body_hash;
    if (!same) {
      world_.fail("I8 " + mine.request_id + " was answered with " + m.info.request_id);
    }
    task.state = State::kGivenUp;
    return;
  }
  task.state = State::kAccepted;
  attach(index);
  ask_for_others(index);
  if (request(index).cancel_us >= 0) {
    world_.after(request(index).cancel_us, [this, index] { cancel(index); });
  }
}

void ClientNode::refused(int index, Operation what, const wire::Refused& m) {
  Task& task = tasks_[index];
  const Errc code = m.refusal.code;
  if (what == Operation::kSubmit && task.state == State::kSubmitted) {
    if (code == Errc::kIdempotencyMismatch || code == Errc::kInvalidRequest) {
      if (request(index).same_key_as < 0 && code == Errc::kInvalidRequest) {
        world_.fail("I1 " + request(index).submit.request_id + " refused: " + m.refusal.message);
      }
      task.state = State::kGivenUp;
      return;
    }
    const std::int64_t pause_us = world_.random.between(100, 800) * kMs;
    world_.after(pause_us, [this, index, round = ++task.round] {
      if (tasks_[index].round == round) submit(index);
    });
  } else if (what == Operation::kAttach && code == Errc::kNotFound) {
    if (!auditor_.may_be_gone(request(index).submit.request_id)) {
      world_.fail("I1 " + request(index).submit.request_id + " was accepted and is not found");
    }
    world_.hit(Fault::kDeletedAttached);
    task.state = State::kGivenUp;
  } else if (what == Operation::kAttach && code == Errc::kCorrupt &&
             auditor_.may_fail(request(index).submit.request_id)) {
    task.state = State::kGivenUp;
  } else if (what == Operation::kAttach && task.state == State::kAttached) {
    task.state = State::kAccepted;
    world_.after(200 * kMs, [this, index] { attach(index); });
  } else if (what == Operation::kCancel && code == Errc::kNotFound &&
             task.state > State::kSubmitted &&
             !auditor_.may_be_gone(request(index).submit.request_id)) {
    world_.fail("I1 " + request(index).submit.request_id + " was accepted, its cancel is refused");
  }
}

void ClientNode::event(int index, const wire::Event& m) {
  Task& task = tasks_[index];
  const auto c = static_cast<std::size_t>(m.choice);
  if (task.state != State::kAttached || m.tag != task.tag) {
    if (m.tag == task.fin_tag) {
      world_.fail("I6 an EVENT of " + m.request_id + " comes after its FIN");
    }
    return;
  }
  const std::int64_t end = m.start + static_cast<std::int64_t>(m.ids.size());
  if (m.start != task.at[c]) {
    return world_.fail("I2 the stream of " + m.request_id + "/" + std::to_string(m.choice) +
                       " goes on at " + std::to_string(m.start) + ", expected " +
                       std::to_string(task.at[c]));
  }
  if (end > task.credited[c] + task.window) {
    world_.fail("I10 " + m.request_id + " sends up to " + std::to_string(end) + ", credit is " +
                std::to_string(task.credited[c]) + " + " + std::to_string(task.window));
  }
  task.received = true;
  task.at[c] = end;
  task.got[c] = std::max(task.got[c], end);
  if (request(index).slow && !world_.healed) {
    world_.hit(Fault::kClientSlow);
    world_.after(world_.random.between(1, 500) * kMs, [this, index, m] { credit(index, m); });
  } else {
    credit(index, m);
  }
}

void ClientNode::credit(int index, const wire::Event& m) {
  Task& task = tasks_[index];
  if (task.tag != m.tag || task.state != State::kAttached) return;
  const auto c = static_cast<std::size_t>(m.choice);
  const std::int64_t end = m.start + static_cast<std::int64_t>(m.ids.size());
  task.credited[c] = std::max(task.credited[c], end);
  send(wire::Credit{m.tag, m.request_id, m.choice, end});
}

void ClientNode::fin(int index, const wire::Fin& m) {
  Task& task = tasks_[index];
  if (m.tag == task.fin_tag) {
    return world_.fail("I6 " + m.info.request_id + " has two FINs on one stream");
  }
  if (m.tag != task.tag || task.state == State::kGivenUp) return;
  // Rows that cannot be read cannot be sent either.
  const bool damaged = std::any_of(m.info.choices.begin(), m.info.choices.end(),
                                   [](const auto& c) { return c.error_code == "corrupt"; });
  for (const wire::ChoiceInfo& choice : m.info.choices) {
    const std::int64_t at = task.at[static_cast<std::size_t>(choice.choice)];
    // Power failed: the client is ahead of what was synced, and the request ended before its tokens
    // were made again.
    const bool ahead = at > choice.next_index && world_.power_failed &&
                       m.info.state != wire::RequestState::kSucceeded;
    if (at != choice.next_index && !ahead && !damaged) {
      world_.fail("I13 FIN of " + m.info.request_id + "/" + std::to_string(choice.choice) +
                  " counts " + std::to_string(choice.next_index) + " tokens, the stream had " +
                  std::to_string(task.at[static_cast<std::size_t>(choice.choice)]));
    }
  }
  task.fin_tag = m.tag;
  task.state = State::kFin;
  if (request(index).again_us < 0 || task.again) return;
  task.again = true;
  world_.after(request(index).again_us, [this, index] {
    Task& ended = tasks_[index];
    world_.hit(Fault::kEndedStreamedAgain);
    ended.state = State::kAccepted;
    std::fill(ended.got.begin(), ended.got.end(), 0);
    attach(index);
  });
}

}  // namespace holdfast::simulation
