#pragma once
// Effects: what a step asks the shell to do. The shell writes all row changes of the group in one
// transaction, then sends the messages in order. Nothing leaves before the commit that justifies
// it.

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "control/core/rows.h"

namespace holdfast::core {

/// Sends a message to a peer, after the rows of the same group are committed.
struct SendMessage {
  PeerId to = 0;
  wire::Message message;  // RequestInfo::prompt_text is filled by the shell when `echo`
};
/// A dispatch whose prefix root the shell derives. `dispatch.prompt_ids` has the ids where the
/// group itself adds the request; else it is empty, and the shell reads them from the store.
struct SendDispatch {
  PeerId to = 0;
  wire::Dispatch dispatch;
  Seq seq = 0;
  std::int32_t prompt = 0;
  /// Scope whose prompts may share pages: the shell derives dispatch.prefix_root from it.
  std::string prefix_scope;
};
/// Committed tokens [start, until) of a choice. `ids` is empty when the shell shall read them (and
/// their extra) from the store.
struct SendEvent : TokenRun {
  PeerId to = 0;
  std::uint64_t tag = 0;
  std::string request_id;
  std::string model_sha;
  Seq seq = 0;
  std::int32_t choice = 0;
  std::int64_t until = 0;
};
/// The answer to an operator verb, rendered by the shell after the commit.
struct SendOpResult {
  PeerId to = 0;
  std::uint64_t tag = 0;
  bool ok = false;
  wire::Refusal refusal;
  std::string verb;
  std::string key;  // what it was about: a model's name, a request's id
};
using Outgoing = std::variant<SendMessage, SendDispatch, SendEvent, SendOpResult>;

/// A line for the log; a person should look at one with `alarm`.
struct Note {
  bool alarm = false;
  std::string event;
  std::vector<std::pair<std::string, std::string>> fields;
};

/// Everything that the steps of a group ask for; `durability` is the strongest that a row needs.
struct Effects {
  std::vector<RowChange> rows;
  Durability durability = Durability::kNone;
  std::vector<Outgoing> messages;
  std::vector<Note> notes;
  bool stop = false;  // the daemon has drained: check the database in and exit 0

  void write(RowChange change, Durability required) {
    rows.push_back(std::move(change));
    if (required > durability) durability = required;
  }
  void send(PeerId to, wire::Message message) {
    if (to != 0) messages.push_back(SendMessage{to, std::move(message)});
  }
  void note(std::string event, std::vector<std::pair<std::string, std::string>> fields,
            bool alarm = false) {
    notes.push_back(Note{alarm, std::move(event), std::move(fields)});
  }
};

/// Returns a prompt's ids if the group adds the request; nullptr if the database has it already.
const std::vector<TokenId>* prompt_in_group(const Effects& effects, Seq seq, std::int32_t prompt);

}  // namespace holdfast::core
