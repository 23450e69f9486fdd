#pragma once
// The table of loads with its indexes: a step of a large cluster looks at the loads it is about,
// not at all of them.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "control/core/transitions.h"
#include "control/core/workers.h"

namespace holdfast::core {

/// Loads by id, and by model, by worker and by memory pool. A field that an index depends on
/// (model, worker key, slots, `running`, `pools`, state) changes through the table alone.
/// References to loads stay valid until they are erased. Not thread-safe.
class LoadTable {
 public:
  using Map = std::map<std::string, Load>;
  struct ById {
    bool operator()(const Load* a, const Load* b) const { return a->row.load_id < b->row.load_id; }
  };
  using Group = std::set<Load*, ById>;
  /// Order in which loads are given work: most free slots first, so that several fill evenly; ids
  /// make ties deterministic.
  struct Turn {
    std::int64_t free = 0;
    std::string_view load_id;
    bool operator<(const Turn& other) const {
      return std::make_tuple(-free, load_id) < std::make_tuple(-other.free, other.load_id);
    }
  };
  using Open = std::map<Turn, Load*>;

  LoadTable() = default;
  LoadTable(const LoadTable&) = delete;
  LoadTable& operator=(const LoadTable&) = delete;

  Map::iterator begin() { return loads_.begin(); }
  Map::iterator end() { return loads_.end(); }
  Map::const_iterator begin() const { return loads_.begin(); }
  Map::const_iterator end() const { return loads_.end(); }
  Map::iterator find(const std::string& id) { return loads_.find(id); }
  Map::const_iterator find(const std::string& id) const { return loads_.find(id); }
  Load& at(const std::string& id) { return loads_.at(id); }
  const Load& at(const std::string& id) const { return loads_.at(id); }
  std::size_t count(const std::string& id) const { return loads_.count(id); }
  std::size_t size() const { return loads_.size(); }
  bool empty() const { return loads_.empty(); }
  const Map& by_id() const { return loads_; }

  /// Adds a load whose id is new.
  Load& insert(Load load);
  void erase(const std::string& id);

  /// Loads of a model, in order of their ids.
  const Group& of_model(const std::string& name) const { return group(by_model_, name); }
  /// Loads of a worker key, of its processes of before too.
  const Group& of_worker(const std::string& key) const { return group(by_worker_, key); }
  /// Loads that take from a pool with one of these keys, and those of whose pools nothing is known,
  /// which may.
  Group of_pools(const std::vector<std::string>& keys) const;
  /// Loads of a model with free slots, in the order in which they are given work.
  const Open& open_of(const std::string& model) const;

  /// Slots of all loads.
  std::int64_t slots() const { return slots_; }
  /// Number of loads that workers work on.
  std::int64_t in_progress() const { return in_progress_; }

  void set_state(Load& load, ModelState state);
  void set_slots(Load& load, std::int32_t slots);
  /// Says which memory pools the load takes from.
  void set_pools(Load& load, std::vector<std::string> keys);
  /// Begins to run a choice on the load.
  void begin_run(Load& load, ChoiceRef ref);
  /// Ends it; false if it did not run there.
  bool end_run(Load& load, ChoiceRef ref);

 private:
  using Groups = std::map<std::string, Group>;

  static const Group& group(const Groups& groups, const std::string& key);
  static void leave(Groups& groups, const std::string& key, Load& load);
  static Turn turn_of(const Load& load);
  void enter_pools(Load& load);
  void leave_pools(Load& load);
  void open(Load& load);
  void close(Load& load);

  Map loads_;
  Groups by_model_, by_worker_, by_pool_;
  Group anywhere_;                    // loads of whose pools nothing is known
  std::map<std::string, Open> open_;  // by model
  std::int64_t slots_ = 0;
  std::int64_t in_progress_ = 0;
};

}  // namespace holdfast::core
