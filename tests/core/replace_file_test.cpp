// Goal: a replaced file is the old one or the new one, and its owner's alone. Method: a folder of
// the test.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "shared/base/replace_file.h"

namespace holdfast::replace_file_test {
namespace {

namespace fs = std::filesystem;

struct ReplaceFile : testing::Test {
  std::string dir = (fs::temp_directory_path() / "hf-replace-XXXXXX").string();
  void SetUp() override { ASSERT_NE(mkdtemp(dir.data()), nullptr); }
  void TearDown() override { fs::remove_all(dir); }
  static std::string content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

TEST_F(ReplaceFile, File_WhenWrittenAgain_HasTheNewTextAlone) {
  const std::string path = dir + "/note";
  ASSERT_TRUE(replace_file(path, std::string(1 << 20, 'a')));
  ASSERT_TRUE(replace_file(path, "short"));
  EXPECT_EQ(content(path), "short");
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_FALSE(fs::exists(path + ".new"));
}

TEST_F(ReplaceFile, File_ThatCannotBeReplaced_StaysAndIsNamed) {
  const std::string path = dir + "/folder/note";
  const auto missing = replace_file(path, "text");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Errc::kIo);
  EXPECT_NE(missing.error().what.find(path), std::string::npos);
  fs::create_directories(dir + "/taken/inside");
  EXPECT_FALSE(replace_file(dir + "/taken", "text"));
  EXPECT_TRUE(fs::exists(dir + "/taken/inside"));
}

}  // namespace
}  // namespace holdfast::replace_file_test
