// Goal: objects of gateways come back as they went in, content in the order of its parts, and
// damage is reported. Method: row changes by hand, a new store on the same file, a changed byte.
#include <gtest/gtest.h>

#include "tests/store/temp_state.h"

namespace holdfast::store::objects_test {
namespace {

core::ObjectRow object(core::Seq seq, const std::string& kind, const std::string& id) {
  core::ObjectRow row;
  row.seq = seq;
  row.kind = kind;
  row.id = id;
  row.owner = seq % 2 == 0 ? "ann" : "ben";
  row.version = 1;
  row.created_ms = 10 + seq;
  row.changed_ms = 20 + seq;
  row.expires_ms = seq == 3 ? 1000 : 0;
  row.body = R"({"n":)" + std::to_string(seq) + "}";
  return row;
}

core::PutObject append(core::ObjectRow& row, const std::string& bytes) {
  ++row.version;
  row.bytes += static_cast<std::int64_t>(bytes.size());
  return {row, bytes};
}

std::vector<core::Seq> seqs(const std::vector<core::ObjectRow>& rows) {
  std::vector<core::Seq> out;
  for (const core::ObjectRow& row : rows) out.push_back(row.seq);
  return out;
}

TEST(Objects, Object_WhenTheStoreIsReopened_HasTheSameContent) {
  const TempState state;
  core::ObjectRow file = object(1, "file", "a");
  {
    auto store = open_store(state.dir());
    commit(*store, {core::PutObject{file, ""}, core::PutObject{object(2, "file", "b"), ""},
                    core::PutObject{object(3, "batch", "a"), ""},
                    core::PutObject{object(4, "file", "c"), ""}});
    commit(*store, {append(file, "hello ")});
    commit(*store, {append(file, "big "), append(file, std::string(3, '\0') + "world")});
  }
  auto store = open_store(state.dir());
  const auto found = store->find_object("file", "a").value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->version, 4);
  EXPECT_EQ(found->bytes, 18);
  EXPECT_EQ(found->body, R"({"n":1})");
  EXPECT_EQ(found->owner, "ben");
  EXPECT_EQ(found->created_ms, 11);
  EXPECT_EQ(found->changed_ms, 21);
  EXPECT_FALSE(store->find_object("file", "d").value());
  EXPECT_EQ(store->find_object("batch", "a").value()->expires_ms, 1000);
  const std::string whole = "hello big " + std::string(3, '\0') + "world";
  for (std::int64_t from = 0; from <= 20; ++from) {
    for (const std::int64_t limit : {1, 5, 100}) {
      const auto at = static_cast<std::size_t>(std::min<std::int64_t>(from, 18));
      EXPECT_EQ(store->object_content(1, from, limit).value(),
                whole.substr(at, static_cast<std::size_t>(limit)))
          << from << " " << limit;
    }
  }
  const auto totals = store->object_totals().value();
  EXPECT_EQ(totals.count, 4);
  EXPECT_EQ(totals.bytes, 18 + 4 * 7);
  EXPECT_EQ(totals.last, 4);
}

TEST(Objects, ListObjects_WithOrderAndLimit_StartsFromEitherEnd) {
  const TempState state;
  auto store = open_store(state.dir());
  for (core::Seq seq = 1; seq <= 6; ++seq) {
    commit(*store, {core::PutObject{
                       object(seq, seq == 5 ? "batch" : "file", "x" + std::to_string(seq)), ""}});
  }
  const auto list = [&](const std::string& owner, core::Seq from, bool newest, std::int64_t limit) {
    return seqs(store->list_objects({"file", owner, from, newest, limit}).value());
  };
  using Seqs = std::vector<core::Seq>;
  EXPECT_EQ(list("", 0, true, 100), (Seqs{6, 4, 3, 2, 1}));
  EXPECT_EQ(list("", 0, false, 2), (Seqs{1, 2}));
  EXPECT_EQ(list("", 2, false, 2), (Seqs{3, 4}));
  EXPECT_EQ(list("", 4, true, 2), (Seqs{3, 2}));
  EXPECT_EQ(list("ann", 0, true, 100), (Seqs{6, 4, 2}));
  EXPECT_EQ(list("ben", 3, true, 100), (Seqs{1}));
}

TEST(Objects, DeleteObject_WhenExpired_RemovesItsContentToo) {
  const TempState state;
  auto store = open_store(state.dir());
  core::ObjectRow row = object(3, "file", "a");
  commit(*store, {core::PutObject{row, ""}, append(row, "content")});
  EXPECT_TRUE(store->expired_objects(999, 10).value().empty());
  EXPECT_EQ(store->expired_objects(1000, 10).value(), (std::vector<core::Seq>{3}));
  commit(*store, {core::DeleteObject{3}});
  EXPECT_FALSE(store->find_object("file", "a").value());
  EXPECT_EQ(store->object_content(3, 0, 100).value(), "");
  EXPECT_EQ(store->object_totals().value().count, 0);
}

TEST(Objects, Object_WhenDamaged_IsReportedAsCorrupt) {
  const TempState state;
  {
    auto store = open_store(state.dir());
    core::ObjectRow row = object(1, "file", "a");
    commit(*store, {core::PutObject{row, ""}, append(row, "content")});
    core::ObjectRow other = object(2, "file", "b");
    commit(*store, {core::PutObject{other, ""}, append(other, "content")});
    ASSERT_TRUE(store->checkpoint_all());
  }
  run_sql(state.db(), "UPDATE object_parts SET data = x'00' WHERE seq = 1");
  run_sql(state.db(), "UPDATE objects SET body = '{}' WHERE seq = 2");
  auto store = open_store(state.dir());
  EXPECT_EQ(store->object_content(1, 0, 10).error().code, Errc::kCorrupt);
  EXPECT_EQ(store->find_object("file", "b").error().code, Errc::kCorrupt);
  EXPECT_TRUE(store->find_object("file", "a").value());
}

TEST(Objects, ObjectContent_WhenAPartIsMissing_IsCorrupt) {
  for (const char* at : {"0", "7"}) {
    const TempState state;
    {
      auto store = open_store(state.dir());
      core::ObjectRow row = object(1, "file", "a");
      commit(*store, {core::PutObject{row, ""}, append(row, "content"), append(row, " and "),
                      append(row, "more")});
    }
    run_sql(state.db(), std::string("DELETE FROM object_parts WHERE at = ") + at);
    auto store = open_store(state.dir());
    const auto content = store->object_content(1, 0, 100);
    ASSERT_FALSE(content) << at;
    EXPECT_EQ(content.error().code, Errc::kCorrupt);
    EXPECT_NE(content.error().what.find("the order of the parts of row 1"), std::string::npos)
        << content.error().what;
    EXPECT_EQ(store->object_content(1, 12, 100).value(), "more") << "what is behind it is whole";
  }
}

}  // namespace
}  // namespace holdfast::store::objects_test
