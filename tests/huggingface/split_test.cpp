// Goal: a GGUF model in several files is the same model as before the split, for every reader; and
// a part that is missing, another model's or not the first is named. Method: a tiny model written
// in parts with the keys that gguf-split writes, compared and computed; parts damaged one by one.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "ops/model_tools/synth.h"
#include "shared/gguf/part_name.h"
#include "shared/gguf/writer.h"
#include "shared/huggingface/split_file.h"
#include "shared/huggingface/stamp.h"
#include "tests/huggingface/same_model.h"
#include "tests/huggingface/temp_folder.h"

namespace holdfast::huggingface::split_test {
namespace {

using huggingface_test::outputs_of;

struct Part {
  std::int32_t number = 1;
  std::int32_t count = 3;
  std::int32_t says_number = 0;  // 0: number
  std::int32_t says_count = 0;
  std::int32_t tensors = 0;
};

/// Writes every count-th tensor from the number-th on; keys go to the first part.
void write_part(const gguf::File& whole, const Part& p, const std::string& path) {
  gguf::Writer writer;
  for (const std::string& key : whole.keys()) {
    if (p.number == 1) writer.copy_key(whole, key);
  }
  writer.set_u32("split.no",
                 static_cast<std::uint32_t>((p.says_number > 0 ? p.says_number : p.number) - 1));
  writer.set_u32("split.count",
                 static_cast<std::uint32_t>(p.says_count > 0 ? p.says_count : p.count));
  writer.set_i32("split.tensors.count",
                 p.tensors > 0 ? p.tensors : static_cast<std::int32_t>(whole.tensors().size()));
  for (std::size_t i = static_cast<std::size_t>(p.number - 1); i < whole.tensors().size();
       i += static_cast<std::size_t>(p.count)) {
    const gguf::TensorInfo& t = whole.tensors()[i];
    writer.add_tensor(t.name, t.type, {t.dims, t.dims + t.n_dims},
                      [&](const gguf::Writer::Sink& sink) { return sink(t.data); });
  }
  ASSERT_TRUE(writer.write(path).has_value());
}

class Split : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cli::synth("tiny", temp_.at("whole.gguf"), "q8_0", 3, {}).has_value());
    whole_ = gguf::File::open(temp_.at("whole.gguf")).value();
    for (std::int32_t n = 1; n <= 3; ++n) write({.number = n});
  }
  void write(const Part& part) { write_part(*whole_, part, path(part.number)); }
  std::string path(int n) const {
    return temp_.at("m-0000" + std::to_string(n) + "-of-00003.gguf");
  }
  void expect_refused(const std::string& path, Errc code, const std::vector<std::string>& says) {
    const auto opened = open_model(path);
    ASSERT_FALSE(opened.has_value()) << says[0];
    EXPECT_EQ(opened.error().code, code) << opened.error().what;
    for (const std::string& part : says) {
      EXPECT_NE(opened.error().what.find(part), std::string::npos) << opened.error().what;
    }
  }

  huggingface_test::TempFolder temp_;
  std::shared_ptr<const gguf::File> whole_;
};

TEST_F(Split, SplitModel_WhenOpened_EqualsTheWholeFile) {
  const auto split = open_model(path(1)).value();
  huggingface_test::expect_same_tensors(*whole_, *split);
  EXPECT_EQ(split->keys(), whole_->keys());
  EXPECT_FALSE(split->has("split.count"));
  EXPECT_EQ(plan::shape_to_json(plan::read_shape(*split).value()),
            plan::shape_to_json(plan::read_shape(*whole_).value()));
  EXPECT_EQ(outputs_of(path(1)), outputs_of(temp_.at("whole.gguf")));
}

TEST_F(Split, StampAndHash_WhenAnyPartChanges_Differ) {
  EXPECT_EQ(files_of(path(1)).value(), (std::vector<std::string>{path(1), path(2), path(3)}));
  const auto sha = sha256_of(path(1)).value();
  const auto stamp = stamp_of(path(1)).value();
  std::int64_t bytes = 0;
  for (int n = 1; n <= 3; ++n)
    bytes += static_cast<std::int64_t>(std::filesystem::file_size(path(n)));
  EXPECT_EQ(stamp.size, bytes);
  std::filesystem::create_directory(temp_.at("d"));
  for (int n = 1; n <= 3; ++n) {
    std::filesystem::copy(path(n), temp_.at("d/other-0000" + std::to_string(n) + "-of-00003.gguf"));
  }
  EXPECT_EQ(sha256_of(temp_.at("d/other-00001-of-00003.gguf")).value(), sha);
  for (int n = 1; n <= 3; ++n) {
    std::ofstream(path(n), std::ios::app) << "x";
    EXPECT_NE(sha256_of(path(1)).value(), sha) << n;
    EXPECT_NE(stamp_of(path(1)).value().size, stamp.size) << n;
    write({.number = n});
  }
  EXPECT_EQ(sha256_of(path(1)).value(), sha);
}

TEST_F(Split, SplitModel_WhenPartsDisagree_IsRefusedByName) {
  expect_refused(path(2), Errc::kFileInvalid, {"part 2 of 3", "m-00001-of-00003.gguf"});
  std::filesystem::copy(path(1), temp_.at("renamed.gguf"));
  expect_refused(temp_.at("renamed.gguf"), Errc::kFileInvalid, {"3 parts", "-00001-of-00003.gguf"});
  write({.number = 2, .says_number = 3});
  expect_refused(path(1), Errc::kFileInvalid, {"m-00002-of", "part 3 of 3", "2 of 3"});
  write({.number = 2, .says_count = 4});
  expect_refused(path(1), Errc::kFileInvalid, {"m-00002-of", "part 2 of 4"});
  write_part(*whole_, {.number = 1}, path(2));
  expect_refused(path(1), Errc::kFileInvalid, {"m-00002-of", "part 1 of 3"});
  write_part(*whole_, {.number = 1, .says_number = 2}, path(2));
  expect_refused(path(1), Errc::kFileInvalid, {"in two of its parts"});
  std::filesystem::copy(temp_.at("whole.gguf"), path(2),
                        std::filesystem::copy_options::overwrite_existing);
  expect_refused(path(1), Errc::kFileInvalid, {"m-00002-of", "part none of none"});
  write({.number = 2});
  write({.number = 1, .tensors = 7});
  expect_refused(path(1), Errc::kFileInvalid, {"expected 7"});
  write({.number = 1});
  ASSERT_TRUE(open_model(path(1)).has_value());
  std::filesystem::remove(path(3));
  expect_refused(path(1), Errc::kIo, {"m-00003-of-00003.gguf"});
  EXPECT_EQ(stamp_of(path(1)).error().code, Errc::kIo);
}

TEST(PartName, PartName_WithGgufSplitNames_IsParsed) {
  const auto name = gguf::part_name("/a/b-c-00002-of-00031.gguf");
  ASSERT_TRUE(name.has_value());
  EXPECT_EQ(name->stem, "/a/b-c");
  EXPECT_EQ(name->number, 2);
  EXPECT_EQ(name->count, 31);
  EXPECT_EQ(name->of(31), "/a/b-c-00031-of-00031.gguf");
  for (const char* other :
       {"m.gguf", "m-00001-of-00002", "m-0001-of-00002.gguf", "m-00003-of-00002.gguf",
        "m-00000-of-00002.gguf", "m00001-of-00002.gguf", "m-00001of00002.gguf",
        "00001-of-00002.gguf", "m-0000a-of-00002.gguf", "-of-00002.gguf", ".gguf", ""}) {
    EXPECT_FALSE(gguf::part_name(other).has_value()) << other;
  }
}

}  // namespace
}  // namespace holdfast::huggingface::split_test
