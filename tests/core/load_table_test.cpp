// The table of loads and its indexes: what is found by model, worker, pool and free slots is what
// the fields of the loads say, after any change.
#include "control/core/load_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::core {
namespace {

Load load_of(const std::string& id, const std::string& model, const std::string& worker,
             std::int32_t slots) {
  Load load;
  load.row.load_id = id;
  load.row.model = model;
  load.row.worker_key = worker;
  load.row.slots = slots;
  load.row.state = ModelState::kPlacing;
  return load;
}

template <class Loads>
std::vector<std::string> ids_of(const Loads& loads) {
  std::vector<std::string> ids;
  for (const Load* load : loads) ids.push_back(load->row.load_id);
  return ids;
}

std::vector<std::string> turns_of(const LoadTable& table, const std::string& model) {
  std::vector<std::string> ids;
  for (const auto& [turn, load] : table.open_of(model)) ids.push_back(load->row.load_id);
  return ids;
}

using Ids = std::vector<std::string>;

TEST(LoadTable, Groups_OfInsertedLoads_HaveThemInOrderOfIds) {
  LoadTable table;
  table.insert(load_of("l3", "a", "w1", 1));
  table.insert(load_of("l1", "a", "w2", 1));
  table.insert(load_of("l2", "b", "w1", 1));
  EXPECT_EQ(ids_of(table.of_model("a")), (Ids{"l1", "l3"}));
  EXPECT_EQ(ids_of(table.of_worker("w1")), (Ids{"l2", "l3"}));
  EXPECT_TRUE(table.of_model("c").empty());
  table.erase("l3");
  EXPECT_EQ(ids_of(table.of_model("a")), (Ids{"l1"}));
  EXPECT_EQ(ids_of(table.of_worker("w1")), (Ids{"l2"}));
  EXPECT_EQ(table.slots(), 2);
}

TEST(LoadTable, OfPools_WhenALoadHasNoPoolsYet_HasItEverywhere) {
  LoadTable table;
  table.insert(load_of("l1", "a", "w1", 1));
  Load& second = table.insert(load_of("l2", "a", "w2", 1));
  table.set_pools(second, {"host1", "host1", "group1"});
  EXPECT_EQ(ids_of(table.of_pools({"host1"})), (Ids{"l1", "l2"}));
  EXPECT_EQ(ids_of(table.of_pools({"host2"})), (Ids{"l1"}));
  table.set_pools(table.at("l1"), {"host2"});
  EXPECT_EQ(ids_of(table.of_pools({"host1", "group1"})), (Ids{"l2"}));
  table.erase("l2");
  EXPECT_TRUE(table.of_pools({"host1", "group1"}).empty());
}

TEST(LoadTable, OpenOf_WhenChoicesBeginAndEnd_HasMostFreeSlotsFirst) {
  LoadTable table;
  Load& one = table.insert(load_of("l1", "a", "w1", 2));
  table.insert(load_of("l2", "a", "w2", 2));
  EXPECT_EQ(turns_of(table, "a"), (Ids{"l1", "l2"}));
  table.begin_run(one, {1, 0});
  EXPECT_EQ(turns_of(table, "a"), (Ids{"l2", "l1"}));
  table.begin_run(one, {2, 0});
  EXPECT_EQ(turns_of(table, "a"), (Ids{"l2"}));
  EXPECT_FALSE(table.end_run(one, {3, 0}));
  EXPECT_TRUE(table.end_run(one, {1, 0}));
  table.set_slots(one, 9);
  EXPECT_EQ(turns_of(table, "a"), (Ids{"l1", "l2"}));
  EXPECT_EQ(table.slots(), 11);
}

TEST(LoadTable, InProgress_WhenStatesChange_CountsWhatWorkersWorkOn) {
  LoadTable table;
  Load& load = table.insert(load_of("l1", "a", "w1", 1));
  EXPECT_EQ(table.in_progress(), 1);
  table.set_state(load, ModelState::kWarming);
  EXPECT_EQ(table.in_progress(), 1);
  table.set_state(load, ModelState::kReady);
  EXPECT_EQ(table.in_progress(), 0);
  table.insert(load_of("l2", "a", "w1", 1));
  table.erase("l2");
  EXPECT_EQ(table.in_progress(), 0);
}

/// A table that is changed at random beside the plain truth: all loads looked at one by one.
class RandomLoads {
 public:
  void change() {
    const int what = draw(5);
    if (what == 0 || table_.empty()) return insert();
    const std::string id = std::next(table_.begin(), draw(static_cast<int>(table_.size())))->first;
    Load& load = table_.at(id);
    if (what == 1) table_.set_pools(load, pools());
    if (what == 2) table_.set_slots(load, draw(4));
    if (what == 3) table_.begin_run(load, {draw(6), 0});
    if (what == 4 && !table_.end_run(load, {draw(6), 0}) && draw(4) == 0) table_.erase(id);
  }
  void check() const {
    for (const std::string model : {"a", "b"}) {
      EXPECT_EQ(ids_of(table_.of_model(model)),
                ids_where([&](const Load& load) { return load.row.model == model; }));
      Ids open =
          ids_where([&](const Load& load) { return load.row.model == model && free_of(load) > 0; });
      std::stable_sort(open.begin(), open.end(), [&](const auto& x, const auto& y) {
        return free_of(table_.at(x)) > free_of(table_.at(y));
      });
      EXPECT_EQ(turns_of(table_, model), open);
    }
    EXPECT_EQ(ids_of(table_.of_pools({"p0", "p1"})), ids_where([](const Load& load) {
                return !load.pools || std::any_of(load.pools->begin(), load.pools->end(),
                                                  [](const auto& key) { return key != "p2"; });
              }));
  }

 private:
  static std::int64_t free_of(const Load& load) {
    return load.row.slots - static_cast<std::int64_t>(load.running.size());
  }
  template <class Test>
  Ids ids_where(const Test& test) const {
    Ids ids;
    for (const auto& [id, load] : table_) {
      if (test(load)) ids.push_back(id);
    }
    return ids;
  }
  int draw(int below) { return std::uniform_int_distribution<int>(0, below - 1)(random_); }
  std::vector<std::string> pools() {
    return {"p" + std::to_string(draw(3)), "p" + std::to_string(draw(3))};
  }
  void insert() {
    Load load = load_of("l" + std::to_string(++last_), draw(2) == 0 ? "a" : "b",
                        "w" + std::to_string(draw(3)), draw(4));
    if (draw(2) == 0) load.pools = pools();
    table_.insert(std::move(load));
  }

  std::mt19937 random_{1};
  LoadTable table_;
  int last_ = 0;
};

TEST(LoadTable, Indexes_AfterRandomChanges_SayWhatTheFieldsSay) {
  RandomLoads loads;
  for (int i = 0; i < 3'000 && !testing::Test::HasFailure(); ++i) {
    loads.change();
    loads.check();
  }
}

}  // namespace
}  // namespace holdfast::core
