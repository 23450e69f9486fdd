#pragma once
// What gateways keep for their clients in the database: files, batches, responses; and what nobody
// may be kept from changing: keys, webhooks, open batches (object_use.h). A gateway has no
// memory of its own; it changes an object by its version, so that of two that change it at once one
// is refused and looks again. Verbs objects.put, objects.delete, objects.get, objects.list
// (schema/protocol.md).

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "control/core/machine.h"
#include "control/link/object_use.h"
#include "control/store/store.h"

namespace holdfast::link {

/// One thread: the daemon's.
class Objects {
 public:
  explicit Objects(store::Store& store) : store_(store) {}
  Result<void> boot();

  /// objects.put and objects.delete: the row changes and the answer, which leaves after the commit.
  /// An error is that of the store.
  Result<void> change(core::PeerId peer, const wire::Op& op, const core::Now& now,
                      const core::Machine& machine, core::Effects& out);
  /// Deletes some whose time is over. The last thing of a group.
  Result<void> expire(const core::Now& now, core::Effects& out);
  /// The changes of the group are in the store, or never will be.
  void group_ended() {
    changed_.clear();
    group_bytes_ = 0;
  }

  struct Shown {
    std::string document;
    std::string
        bytes;  // content that was asked for as it is ("raw"), not as a part of the document
  };
  /// The answer to objects.get or objects.list, from what is committed.
  /// `tenant`: whose they are; empty: what the arguments say.
  static Result<Shown> render(const std::string& verb, const std::string& args, store::Store& store,
                              const std::string& tenant = {});

 private:
  using Name = std::pair<std::string, std::string>;  // kind, id
  struct Change;
  Result<std::optional<core::ObjectRow>> find(const Name& name);
  Result<wire::OpResult> put(const Change& change, core::Effects& out);
  Result<wire::OpResult> remove(const Change& change, core::Effects& out);
  std::optional<wire::Refusal> refuse(const Change& change,
                                      const std::optional<core::ObjectRow>& now) const;

  Result<void> count();
  void count_change(const core::ObjectRow& row, int by);
  bool has_room(std::int64_t more, const core::Config& config) const;

  store::Store& store_;
  ObjectUse use_;                                           // with the changes of this group
  core::Seq last_ = 0;                                      // the highest one given
  bool stale_ = false;                                      // some were deleted for their age
  std::int64_t group_bytes_ = 0;                            // that this group adds
  std::map<Name, std::optional<core::ObjectRow>> changed_;  // by this group; nullopt: deleted
};

}  // namespace holdfast::link
