#pragma once
// Objects that gateways store in the database: files, batches and responses of clients; keys,
// webhooks and open batches, which clients cannot crowd out (object_use.h). A gateway has no memory
// of its own. It changes an object by its version, so that one of two concurrent changes is refused
// and its gateway reads the object again. Verbs objects.put, objects.delete, objects.get,
// objects.list (schema/protocol.md).

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "control/core/machine.h"
#include "control/objects/object_use.h"
#include "control/store/store.h"

namespace holdfast::daemon {

/// The object store. Used on the daemon's thread alone.
class Objects {
 public:
  explicit Objects(store::Store& store) : store_(store) {}
  Result<void> boot();

  /// True for the verbs that change() steps.
  static bool changes(std::string_view verb);
  /// Steps objects.put and objects.delete, pulls.start and pulls.cancel: row changes and the
  /// answer, which leaves after the commit. An error is that of the store.
  Result<void> change(core::PeerId peer, const wire::Op& op, const core::Now& now,
                      const core::Machine& machine, core::Effects& out);
  /// Deletes some objects whose time is over. Call it last in a group.
  Result<void> expire(const core::Now& now, core::Effects& out);
  /// Forgets the changes of the group, which are in the store or never will be.
  void group_ended() {
    changed_.clear();
    group_bytes_ = 0;
  }

  struct Reply {
    std::string document;
    std::string bytes;  // content alone, if it was requested as "raw"
  };
  /// Renders the answer to objects.get or objects.list from what is committed. `tenant`: the owner
  /// of the objects; empty: the one that the arguments name.
  static Result<Reply> render(const std::string& verb, const std::string& args, store::Store& store,
                              const std::string& tenant = {});

 private:
  using Name = std::pair<std::string, std::string>;  // kind, id
  struct Change;
  Result<std::optional<core::ObjectRow>> find(const Name& name);
  Result<wire::OpResult> put(const Change& change, core::Effects& out);
  Result<wire::OpResult> remove(const Change& change, core::Effects& out);
  Result<wire::OpResult> step_pull(const std::string& verb, const nlohmann::json& args,
                                   const core::Now& now, const core::Machine& machine,
                                   core::Effects& out);
  std::optional<wire::Refusal> refuse(const Change& change,
                                      const std::optional<core::ObjectRow>& now) const;
  static std::optional<wire::Refusal> refuse_expectation(const Change& change,
                                                         const std::optional<core::ObjectRow>& now);
  std::optional<wire::Refusal> refuse_growth(const Change& change,
                                             const std::optional<core::ObjectRow>& now) const;

  Result<void> count();
  void count_change(const core::ObjectRow& row, int by);
  bool has_disk_space(std::int64_t more, const core::Config& config) const;

  store::Store& store_;
  ObjectUse use_;                                           // with the changes of this group
  core::Seq last_ = 0;                                      // the highest that was given
  bool stale_ = false;                                      // some expired: recount `use_`
  std::int64_t group_bytes_ = 0;                            // added by this group
  std::map<Name, std::optional<core::ObjectRow>> changed_;  // by this group; nullopt: deleted
};

}  // namespace holdfast::daemon
