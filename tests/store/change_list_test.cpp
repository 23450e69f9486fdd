// Goal: what a primary writes into a list of changes is what its standby reads; bytes that are no
// list are refused, and nothing is read beyond them. Method: random changes, and every list cut and
// changed at random.
#include "control/replication/change_list.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace holdfast::replication::change_list_test {
namespace {

struct Written {
  bool truncates = false;
  DatabaseFile file = DatabaseFile::kMain;
  std::int64_t at = 0;
  std::string bytes;
};

std::vector<Written> random_changes(std::mt19937& random) {
  std::vector<Written> changes(random() % 8);
  for (Written& change : changes) {
    change.truncates = random() % 4 == 0;
    change.file = static_cast<DatabaseFile>(random() % 2);
    change.at = static_cast<std::int64_t>(random() % (1 << 30)) << (random() % 12);
    if (!change.truncates) change.bytes.assign(random() % 5000, static_cast<char>(random()));
  }
  return changes;
}

std::string list_of(const std::vector<Written>& changes) {
  std::string list;
  for (const Written& change : changes) {
    if (change.truncates) {
      append_truncate(list, change.file, change.at);
    } else {
      append_write(list, change.file, change.at, change.bytes);
    }
  }
  return list;
}

TEST(ChangeList, Changes_AfterARoundTrip_AreTheSame) {
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    const std::vector<Written> changes = random_changes(random);
    const std::string list = list_of(changes);
    ChangeReader reader(list);
    for (const Written& change : changes) {
      const auto read = reader.next();
      ASSERT_TRUE(read.has_value()) << read.error().what;
      EXPECT_EQ(read->truncates, change.truncates);
      EXPECT_EQ(read->file, change.file);
      EXPECT_EQ(read->at, change.at);
      EXPECT_EQ(read->bytes, change.bytes);
    }
    EXPECT_TRUE(reader.at_end());
  }
}

TEST(ChangeList, Bytes_ThatAreNoList_AreRefusedOrBounded) {
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string list = list_of(random_changes(random));
    if (list.empty()) continue;
    for (int k = 0; k < 3; ++k) list[random() % list.size()] = static_cast<char>(random());
    if (random() % 2 == 0) list.resize(random() % list.size());
    ChangeReader reader(list);
    std::size_t bytes = 0;
    while (!reader.at_end()) {
      const auto change = reader.next();
      if (!change) {
        EXPECT_EQ(change.error().code, Errc::kFileInvalid);
        ++refused;
        break;
      }
      bytes += change->bytes.size();
      ASSERT_LE(bytes, list.size());
      ASSERT_GE(change->at, 0);
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(ChangeList, OffsetOutOfBounds_IsRefused) {
  for (const std::int64_t at : {std::int64_t{-1}, std::int64_t{1} << 45}) {
    std::string list;
    append_write(list, DatabaseFile::kMain, at, "x");
    EXPECT_FALSE(ChangeReader(list).next().has_value()) << at;
  }
}

}  // namespace
}  // namespace holdfast::replication::change_list_test
