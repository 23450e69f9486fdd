// Goal: a model that comes from other machines is the model or does not come: a wrong chunk is
// refused at once, with its number and its source, and what is on the disk is not read again.
// Method: real files and a source of the test that counts reads, lies and fails; fetches that are
// stopped and tried again, small disks, names that are taken.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "ops/node/model_fetch.h"
#include "shared/huggingface/stamp.h"
#include "shared/model_index/model_index.h"
#include "tests/process/small_disk.h"

namespace holdfast::cli::model_fetch_test {
namespace {

namespace fs = std::filesystem;
using model_index::kChunkBytes;

/// A folder that goes with the test.
struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/holdfast-model-fetch-XXXXXX";
    path = mkdtemp(name);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  Folder(const Folder&) = delete;
  std::string at(const std::string& name) const { return path + "/" + name; }
  std::string write(const std::string& name, std::int64_t bytes, unsigned seed = 1) const {
    fs::create_directories(fs::path(at(name)).parent_path());
    std::mt19937 random(seed);
    std::string content(static_cast<std::size_t>(bytes), '\0');
    for (char& c : content) c = static_cast<char>(random());
    std::ofstream(at(name), std::ios::binary) << content;
    return at(name);
  }
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Sources that all have the same files, and lie or fail as the test says.
struct TestSources final : ModelSources {
  std::string path;
  ModelListing listing;
  std::vector<ModelRange> reads;
  std::vector<std::vector<std::string>> not_from;  // of each list()
  std::map<std::string, std::function<void(const ModelRange&, std::string&)>> lies;  // by source
  std::map<std::string, Error> failures;                                             // by source
  int lists_not_ready = 0;

  explicit TestSources(const std::string& model, std::vector<std::string> names = {""})
      : path(model) {
    listing.ready = listing.verified = true;
    listing.list = model_index::make_chunk_list(model, [](std::int64_t) { return true; }).value();
    listing.sources = std::move(names);
    listing.range_bytes = 512 << 10;
  }
  Result<ModelListing> list(const std::string&, const std::vector<std::string>& wrong) override {
    not_from.push_back(wrong);
    if (lists_not_ready-- > 0) return ModelListing{};
    return listing;
  }
  void read(const ModelRange& range, std::function<void(Result<std::string>)> done) override {
    reads.push_back(range);
    if (failures.contains(range.source)) return done(failures.at(range.source));
    auto content = model_index::read_range(path, range.file, range.offset, range.bytes);
    if (content && lies.contains(range.source)) lies.at(range.source)(range, *content);
    done(std::move(content));
  }
  std::int64_t bytes_read(const std::string& source) const {
    std::int64_t sum = 0;
    for (const ModelRange& range : reads) sum += range.source == source ? range.bytes : 0;
    return sum;
  }
};

/// Flips a bit of one chunk of the first file.
std::function<void(const ModelRange&, std::string&)> wrong_chunk(std::int64_t chunk) {
  return [chunk](const ModelRange& range, std::string& content) {
    if (range.offset == chunk * kChunkBytes) content[7] = static_cast<char>(content[7] ^ 1);
  };
}

/// A model of three chunks and a part of one, and a root to which it comes.
struct ModelFetches : testing::Test {
  Folder source, root;
  std::string model = source.write("model.gguf", 3 * kChunkBytes + 1'234);
  std::vector<FetchProgress> told;
  std::int64_t stop_at = -1;  // bytes that are there
  bool stopped = false;

  FetchOptions options_for(const TestSources& sources) {
    FetchOptions options;
    options.root = root.path;
    options.sha = sources.listing.list.sha;
    options.stopping = [this] { return stopped; };
    options.on_progress = [this](const FetchProgress& progress) {
      told.push_back(progress);
      stopped = stop_at >= 0 && progress.state == "fetching" && progress.done_bytes >= stop_at;
    };
    return options;
  }
  Result<std::string> fetch(TestSources& sources) {
    return ModelFetch(sources, options_for(sources)).run();
  }
  std::string errors_told() const {
    std::string text;
    for (const FetchProgress& progress : told) {
      if (text.find(progress.error) == std::string::npos) text += progress.error + "\n";
    }
    return text;
  }
  std::vector<std::string> below_root() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root.path)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
};

TEST_F(ModelFetches, Model_OfOneFile_ComesUnderItsNameAndIsFoundByItsHash) {
  TestSources sources(model);
  sources.lists_not_ready = 1;
  const auto path = fetch(sources);
  ASSERT_TRUE(path) << path.error().what;
  EXPECT_EQ(*path, root.at("model.gguf"));
  EXPECT_EQ(content_of(*path), content_of(model));
  EXPECT_EQ(below_root(), std::vector<std::string>{"model.gguf"}) << "nothing else stays";
  EXPECT_EQ(sources.bytes_read(""), 3 * kChunkBytes + 1'234) << "each byte once";
  EXPECT_EQ(told.front().state, "reading");
  EXPECT_EQ(told.back().done_bytes, told.back().bytes);
  const auto found = model_index::scan({root.path}, {}, [](const std::string&) {});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sha, sources.listing.list.sha);
}

TEST_F(ModelFetches, WrongChunk_IsRefusedAtOnceNamedAndTakenFromAnotherSource) {
  TestSources sources(model, {"bad", "good"});
  sources.lies["bad"] = wrong_chunk(1);
  const auto path = fetch(sources);
  ASSERT_TRUE(path) << path.error().what;
  EXPECT_EQ(content_of(*path), content_of(model));
  EXPECT_NE(errors_told().find("chunk 1 of model.gguf from node bad has another content"),
            std::string::npos)
      << errors_told();
  EXPECT_LE(sources.bytes_read("bad"), 3 * kChunkBytes) << "not more than is under way";
  EXPECT_EQ(sources.bytes_read("good"), 2 * kChunkBytes + 1'234) << "what was right stays";
}

TEST_F(ModelFetches, WrongChunk_OfTheOnlySource_EndsTheTryAndTheNextOneGoesOn) {
  TestSources sources(model);
  sources.lies[""] = wrong_chunk(2);
  ModelFetch fetch(sources, options_for(sources));
  const auto first = fetch.run();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Errc::kFileInvalid);
  EXPECT_NE(first.error().what.find("chunk 2 of model.gguf from the daemon's machine"),
            std::string::npos)
      << first.error().what;
  EXPECT_FALSE(fs::exists(root.at("model.gguf")));
  sources.lies.clear();
  sources.reads.clear();
  const auto second = fetch.run();
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_EQ(content_of(*second), content_of(model));
  EXPECT_EQ(sources.bytes_read(""), kChunkBytes + 1'234);
}

TEST_F(ModelFetches, ShortAnswer_AndAFailingSource_AreLeftForAnotherOne) {
  TestSources sources(model, {"short", "gone", ""});
  sources.lies["short"] = [](const ModelRange&, std::string& content) { content.pop_back(); };
  sources.failures["gone"] = {Errc::kUnreachable, "its connection ended"};
  const auto path = fetch(sources);
  ASSERT_TRUE(path) << path.error().what;
  EXPECT_EQ(content_of(*path), content_of(model));
  EXPECT_NE(errors_told().find("from node short: 524287 bytes, expected 524288"), std::string::npos)
      << errors_told();
  EXPECT_NE(errors_told().find("from node gone: its connection ended"), std::string::npos);
}

TEST_F(ModelFetches, Fetch_OfAnotherProcess_GoesOnAtWhatIsRightOnTheDisk) {
  TestSources sources(model);
  stop_at = 3 * kChunkBytes;
  const auto first = fetch(sources);
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Errc::kCancelled);
  const std::string part = root.at(".partial/" + sources.listing.list.sha + "/model.gguf");
  ASSERT_TRUE(fs::exists(part));
  EXPECT_TRUE(model_index::scan({root.path}, {}, [](const std::string&) {}).empty());
  std::fstream(part, std::ios::in | std::ios::out).seekp(kChunkBytes + 5).put('!');  // a bad disk
  stop_at = -1;
  stopped = false;
  sources.reads.clear();
  told.clear();
  const auto second = fetch(sources);
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_EQ(content_of(*second), content_of(model));
  EXPECT_EQ(sources.bytes_read(""), kChunkBytes + 1'234) << "the spoilt chunk and the rest";
  EXPECT_EQ(told.front().state, "checking");
}

TEST_F(ModelFetches, FullDisk_IsToldWithNumbersBeforeTheFirstByte) {
  const process::SmallDisk disk(root.at("disk"), "24m");
  if (!disk.why_not().empty()) GTEST_SKIP() << disk.why_not();
  TestSources sources(model);
  FetchOptions options = options_for(sources);
  options.root = disk.path();
  ModelFetch fetch(sources, options);
  const auto first = fetch.run();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Errc::kDiskFull);
  EXPECT_NE(first.error().what.find("12584146 bytes are missing"), std::string::npos)
      << first.error().what;
  EXPECT_TRUE(sources.reads.empty());
  ASSERT_EQ(mount("holdfast-test", disk.path().c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  const auto second = fetch.run();
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_EQ(content_of(*second), content_of(model));
}

TEST_F(ModelFetches, Name_OfAnotherFile_IsLeftToIt) {
  TestSources sources(model);
  const std::string other = content_of(root.write("model.gguf", 100, 7));
  const auto path = fetch(sources);
  ASSERT_TRUE(path) << path.error().what;
  const std::string name = "model." + sources.listing.list.sha.substr(0, 12) + ".gguf";
  EXPECT_EQ(*path, root.at(name));
  EXPECT_EQ(content_of(*path), content_of(model));
  EXPECT_EQ(content_of(root.at("model.gguf")), other);
  // Both names are taken.
  std::ofstream(root.at(name)) << "changed";
  const auto again = fetch(sources);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Errc::kConflict);
  EXPECT_EQ(content_of(root.at(name)), "changed");
}

TEST_F(ModelFetches, Model_InParts_ComesWhole) {
  for (int i = 1; i <= 3; ++i) {
    source.write("big-0000" + std::to_string(i) + "-of-00003.gguf", kChunkBytes + i,
                 static_cast<unsigned>(i));
  }
  TestSources sources(source.at("big-00001-of-00003.gguf"));
  const auto path = fetch(sources);
  ASSERT_TRUE(path) << path.error().what;
  EXPECT_EQ(*path, root.at("big/big-00001-of-00003.gguf"));
  EXPECT_EQ(huggingface::sha256_of(*path).value(), sources.listing.list.sha);
  EXPECT_EQ(below_root(), std::vector<std::string>{"big"});
}

TEST_F(ModelFetches, Model_ThatIsAFolder_ComesWholeAndWithoutLeftovers) {
  for (const char* name : {"config.json", "tokenizer.json", "model.safetensors"}) {
    source.write(std::string("folder/") + name, kChunkBytes / 2 + 3);
  }
  TestSources sources(source.at("folder"));
  root.write(".partial/" + sources.listing.list.sha + "/generation_config.json", 10);
  const auto path = fetch(sources);
  ASSERT_TRUE(path) << path.error().what;
  EXPECT_EQ(*path, root.at("folder"));
  EXPECT_EQ(huggingface::sha256_of(*path).value(), sources.listing.list.sha);
}

TEST_F(ModelFetches, ListOfANodeThatLies_IsFoundByTheModelsHashAndNotTakenAgain) {
  TestSources sources(model, {"liar"});
  sources.listing.verified = false;
  sources.listing.list_source = "liar";
  const std::string sha = sources.listing.list.sha;
  const std::string other = source.write("other/model.gguf", 3 * kChunkBytes + 1'234, 9);
  sources.path = other;
  sources.listing.list =
      model_index::make_chunk_list(other, [](std::int64_t) { return true; }).value();
  sources.listing.list.sha = sha;  // it claims to have the model
  ModelFetch fetch(sources, options_for(sources));
  const auto first = fetch.run();
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, Errc::kFileInvalid);
  EXPECT_NE(first.error().what.find("by the chunks of node liar"), std::string::npos)
      << first.error().what;
  EXPECT_TRUE(below_root().empty());
  TestSources honest(model, {"honest"});
  sources.path = model;
  sources.listing = honest.listing;
  const auto second = fetch.run();
  ASSERT_TRUE(second) << second.error().what;
  EXPECT_EQ(content_of(*second), content_of(model));
  EXPECT_EQ(sources.not_from.back(), std::vector<std::string>{"liar"});
}

TEST_F(ModelFetches, AnotherModel_IsRefusedBeforeTheFirstByte) {
  TestSources sources(model);
  FetchOptions options = options_for(sources);
  options.sha = std::string(64, 'a');
  const auto path = ModelFetch(sources, options).run();
  ASSERT_FALSE(path);
  EXPECT_EQ(path.error().code, Errc::kFileInvalid);
  EXPECT_TRUE(sources.reads.empty());
}

TEST_F(ModelFetches, Rate_WhenItIsLimited_IsHeld) {
  TestSources sources(model);
  FetchOptions options = options_for(sources);
  options.rate_bytes_s = [] { return std::int64_t{16} << 20; };
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(ModelFetch(sources, options).run());
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_GE(seconds, 0.65) << "12 MiB at 16 MiB a second, but for the last reads";
}

TEST(ChunkLists, Text_OfAList_IsReadBackAndWrongOnesAreRefused) {
  const Folder folder;
  const auto list =
      model_index::make_chunk_list(folder.write("m.gguf", 2 * kChunkBytes + 1), [](std::int64_t) {
        return true;
      }).value();
  EXPECT_EQ(list.files[0].chunks(), 3);
  EXPECT_EQ(list.files[0].hashes.size(), 96u);
  const auto text = model_index::to_text(list);
  EXPECT_EQ(model_index::parse_chunk_list(text.document, text.hashes)->files[0].hashes,
            list.files[0].hashes);
  EXPECT_FALSE(model_index::parse_chunk_list(text.document, text.hashes + "x"));
  EXPECT_FALSE(model_index::parse_chunk_list(text.document, text.hashes.substr(1)));
  EXPECT_FALSE(model_index::parse_chunk_list("[]", text.hashes));
  for (const char* name : {"../m", "/etc/passwd", "", "a/../b", ".hidden", "a//b", "a/."}) {
    auto document = nlohmann::json::parse(text.document);
    document["files"][0]["name"] = name;
    EXPECT_FALSE(model_index::parse_chunk_list(document.dump(), text.hashes)) << name;
    document = nlohmann::json::parse(text.document);
    document["name"] = name;
    EXPECT_FALSE(model_index::parse_chunk_list(document.dump(), text.hashes)) << name;
  }
  for (const std::int64_t bytes : {-1LL, 0LL, 1LL << 60}) {
    auto document = nlohmann::json::parse(text.document);
    document["files"][0]["bytes"] = bytes;
    EXPECT_FALSE(model_index::parse_chunk_list(document.dump(), text.hashes)) << bytes;
  }
  const std::string file = folder.at("list");
  ASSERT_TRUE(model_index::write_chunk_list(file, list));
  EXPECT_EQ(model_index::read_chunk_list(file)->sha, list.sha);
  fs::resize_file(file, fs::file_size(file) - 1);  // torn
  EXPECT_EQ(model_index::read_chunk_list(file).error().code, Errc::kFileInvalid);
}

}  // namespace
}  // namespace holdfast::cli::model_fetch_test
