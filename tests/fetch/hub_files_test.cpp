// Goal: of a repository's files those of the model are chosen that is meant. Method: lists as hubs
// have them.
#include "shared/pull/hub_files.h"

#include <gtest/gtest.h>

#include "control/fetch/file_hash.h"

namespace holdfast::test::hub_files_test {
namespace {

using pull::choose_files;
using pull::HubFile;

std::vector<HubFile> files(const std::vector<std::string>& paths) {
  std::vector<HubFile> out;
  for (const std::string& path : paths) out.push_back({path, 1, "", ""});
  return out;
}

std::string chosen(const std::vector<std::string>& paths, const std::string& variant) {
  const auto choice = choose_files(files(paths), variant);
  if (!choice) return std::string(errc_name(choice.error().code));
  std::string text = choice->model + ":";
  for (const HubFile& file : choice->files) text += " " + file.path;
  return text;
}

TEST(HubFiles, Variant_ByQuantizationFolderOrFile_IsFound) {
  const std::vector<std::string> all = {"README.md", "m-Q4_K_M.gguf", "m-Q8_0.gguf",
                                        "mmproj-m-Q8_0.gguf", "BF16/m.gguf"};
  EXPECT_EQ(chosen(all, "q8_0"), "m-Q8_0.gguf: m-Q8_0.gguf");
  EXPECT_EQ(chosen(all, "BF16"), "BF16/m.gguf: BF16/m.gguf");
  EXPECT_EQ(chosen(all, "M-q4_k_m.GGUF"), "m-Q4_K_M.gguf: m-Q4_K_M.gguf");
  EXPECT_EQ(chosen(all, ""), "m-Q4_K_M.gguf: m-Q4_K_M.gguf") << "the usual one";
  EXPECT_EQ(chosen(all, "Q5_K_M"), "not_found");
  EXPECT_EQ(chosen({"x-IQ4_K_S.gguf", "x-IQ1_S.gguf"}, "Q4_K_S"), "not_found") << "not IQ4_K_S";
  EXPECT_EQ(chosen({"only.gguf"}, ""), "only.gguf: only.gguf");
  EXPECT_EQ(chosen({"a.gguf", "b.gguf"}, ""), "not_found") << "which one?";
}

TEST(HubFiles, SplitFile_InAnyOrder_IsTakenWholeOrNotAtAll) {
  EXPECT_EQ(chosen({"m-Q8_0-00002-of-00002.gguf", "m-Q8_0-00001-of-00002.gguf"}, "Q8_0"),
            "m-Q8_0-00001-of-00002.gguf: m-Q8_0-00001-of-00002.gguf m-Q8_0-00002-of-00002.gguf");
  EXPECT_EQ(chosen({"m-Q8_0-00001-of-00003.gguf", "m-Q8_0-00003-of-00003.gguf"}, "Q8_0"),
            "file_invalid");
}

TEST(HubFiles, Repository_WithoutGguf_IsAFolderOfTensors) {
  EXPECT_EQ(chosen({"config.json", "model.safetensors", "tokenizer.json", "x.py", ".gitattributes",
                    "onnx/model.safetensors"},
                   ""),
            ": config.json model.safetensors tokenizer.json");
  EXPECT_EQ(chosen({"model.safetensors"}, ""), "unsupported") << "without config.json";
  EXPECT_EQ(chosen({"pytorch_model.bin", "config.json"}, ""), "unsupported");
}

TEST(FileHash, PublishedTexts_HaveTheirHashes) {
  fetch::FileHash sha256(fetch::FileHash::Kind::kSha256, 3);
  sha256.add("a");
  sha256.add("bc");
  EXPECT_EQ(sha256.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  // As `git hash-object` says of a file with "hello\n".
  fetch::FileHash git(fetch::FileHash::Kind::kGitSha1, 6);
  git.add("hello\n");
  EXPECT_EQ(git.hex(), "ce013625030ba8dba906f756967f9e9ca394464a");
}

}  // namespace
}  // namespace holdfast::test::hub_files_test
