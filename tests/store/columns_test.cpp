// Goal: a column is read and written under its own name, whatever the order of the calls; a
// statement that does not have the columns of its list stops the process.
// Method: a table in memory, written and read by lists of names; statements that differ from them.
#include "control/store/columns.h"

#include <gtest/gtest.h>

#include "control/store/open.h"
#include "control/store/select.h"
#include "control/store/write_statements.h"

namespace holdfast::store::columns_test {
namespace {

constexpr Columns kRow{"seq", "name", "data", "size"};
constexpr Columns kTwo{"name", "size"};

class ColumnsTest : public testing::Test {
 protected:
  ColumnsTest() {
    sqlite3* raw = nullptr;
    EXPECT_EQ(sqlite3_open(":memory:", &raw), SQLITE_OK);
    db_.reset(raw);
    // The table has the columns in another order than the list.
    EXPECT_TRUE(exec(raw, "CREATE TABLE t(size INTEGER, data BLOB, Name TEXT, seq INTEGER)"));
  }
  Db db_;
};

TEST_F(ColumnsTest, Insert_WithValuesInAnyOrder_WritesEachToItsColumn) {
  Insert<kRow> insert;
  ASSERT_TRUE(insert.prepare_plain(db_.get(), "t"));
  ASSERT_TRUE(insert.values().set("size", 3).set("name", "a").set("seq", 7).set_null("data").run());
  const std::string blob("\0b", 2);
  ASSERT_TRUE(
      insert.values().set_blob("data", blob).set("seq", 8).set("size", -1).set("name", "").run());
  Select<kRow> select;
  ASSERT_TRUE(select.prepare(db_.get(), "SELECT " + kRow.list() + " FROM t ORDER BY seq"));
  auto rows = select.rows();
  ASSERT_TRUE(rows.step().value());
  EXPECT_EQ(rows.integer("seq"), 7);
  EXPECT_EQ(rows.text("name"), "a");
  EXPECT_TRUE(rows.is_null("data"));
  EXPECT_EQ(rows.bytes("data"), "");
  EXPECT_EQ(rows.int32("size"), 3);
  ASSERT_TRUE(rows.step().value());
  EXPECT_EQ(rows.bytes("data"), blob);
  EXPECT_FALSE(rows.is_null("name")) << "an empty text is no NULL";
  EXPECT_EQ(rows.uint64("size"), ~std::uint64_t{0});
  EXPECT_TRUE(rows.flag("size"));
  EXPECT_FALSE(rows.step().value());
}

TEST_F(ColumnsTest, Values_WithoutOneOfTheColumns_StopTheProcess) {
  Insert<kTwo> insert;
  ASSERT_TRUE(insert.prepare_plain(db_.get(), "t"));
  EXPECT_DEATH((void)insert.values().set("name", "a").set("name", "b").run(), "each column");
}

TEST_F(ColumnsTest, Select_WithOtherColumnsThanItsList_StopsTheProcess) {
  for (const char* columns : {"size, name", "name", "name, size, seq", "name, size + 1"}) {
    Select<kTwo> select;
    EXPECT_DEATH((void)select.prepare(db_.get(), std::string("SELECT ") + columns + " FROM t"),
                 "SELECT")
        << columns;
  }
  Select<kTwo> select;
  EXPECT_TRUE(select.prepare(db_.get(), "SELECT name, size + 1 AS size FROM t"));
  CheckedSelect<kTwo> checked;
  EXPECT_DEATH((void)checked.prepare_as(db_.get(), "SELECT name, size, seq FROM t"), "SELECT");
}

TEST_F(ColumnsTest, Select_OfATableThatIsMissing_ReturnsAnError) {
  Select<kTwo> select;
  EXPECT_FALSE(select.prepare(db_.get(), "SELECT name, size FROM none"));
}

TEST_F(ColumnsTest, List_WithAPrefix_NamesEachColumnWithIt) {
  EXPECT_EQ(kTwo.list(), "name, size");
  EXPECT_EQ(kTwo.list("t."), "t.name, t.size");
  EXPECT_EQ(kNoColumns.list(), "");
}

}  // namespace
}  // namespace holdfast::store::columns_test
