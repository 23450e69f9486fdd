// Goal: a call that the system refuses while a model is written or opened ends in one error that
// names the file and the step; a full disk is distinguished; the old file stays, and nothing
// incomplete is left. Method: one call fails at a time: libc's calls are interposed here, and
// faults that can be real are (a folder in the way, no free descriptor, a file larger than the
// address space).

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "shared/gguf/writer.h"

namespace {

/// The call that fails, after `left` that do not; error 0: it does half of its work.
struct Fault {
  std::string_view call;
  int left = 0;
  int error = 0;
  bool happened = false;
};
Fault* g_fault = nullptr;

bool is_due(std::string_view call) {
  if (g_fault == nullptr || g_fault->call != call || g_fault->left-- != 0) return false;
  g_fault->happened = true;
  errno = g_fault->error;
  return true;
}

template <class Call>
Call real(const char* name) {
  return reinterpret_cast<Call>(dlsym(RTLD_NEXT, name));
}

}  // namespace

// The test program's own definitions come before libc's.
extern "C" {

ssize_t write(int fd, const void* bytes, std::size_t size) {
  static const auto call = real<ssize_t (*)(int, const void*, std::size_t)>("write");
  if (!is_due("write")) return call(fd, bytes, size);
  return g_fault->error == 0 ? call(fd, bytes, size / 2) : -1;
}

int fsync(int fd) {
  static const auto call = real<int (*)(int)>("fsync");
  return is_due("fsync") ? -1 : call(fd);
}

int close(int fd) {
  static const auto call = real<int (*)(int)>("close");
  const int closed = call(fd);
  return is_due("close") ? -1 : closed;  // closed all the same, as on Linux
}

int fchmod(int fd, mode_t mode) noexcept {
  static const auto call = real<int (*)(int, mode_t)>("fchmod");
  return is_due("fchmod") ? -1 : call(fd, mode);
}

int fstat(int fd, struct stat* info) noexcept {
  static const auto call = real<int (*)(int, struct stat*)>("fstat");
  return is_due("fstat") ? -1 : call(fd, info);
}

}  // extern "C"

namespace holdfast::gguf::faults_test {
namespace {

class FaultsTest : public ::testing::Test {
 protected:
  FaultsTest() {
    std::filesystem::create_directory(folder_);
    std::ofstream(path_) << "old";
  }
  ~FaultsTest() override {
    g_fault = nullptr;
    std::filesystem::remove_all(folder_);
  }

  std::string contents() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::ptrdiff_t files() const {
    const std::filesystem::directory_iterator all(folder_);
    return std::distance(begin(all), end(all));
  }

  const std::string folder_ = (std::filesystem::temp_directory_path() /
                               ("holdfast-gguf-faults-" + std::to_string(::getpid())))
                                  .string();
  const std::string path_ = folder_ + "/m.gguf";
};

/// A model of a small tensor, written with the header, and one larger than the writer's buffer.
Writer two_tensors() {
  Writer writer;
  for (const std::uint64_t n : {std::uint64_t{8}, std::uint64_t{1} << 20}) {
    writer.add_tensor("t" + std::to_string(n), TensorType::kF32, {n},
                      [n](const Writer::Sink& sink) {
                        const std::vector<float> values(n, 1.5f);
                        return sink(std::as_bytes(std::span(values)));
                      });
  }
  return writer;
}

TEST_F(FaultsTest, Write_WhenAStepFails_NamesItAndLeavesTheOldFile) {
  struct Case {
    Fault fault;
    Errc code;
    std::string step;
  };
  const Case kCases[] = {
      {{"fchmod", 0, EPERM}, Errc::kIo, "set its mode"},
      {{"write", 0, EIO}, Errc::kIo, "write"},
      {{"write", 0, ENOSPC}, Errc::kDiskFull, "write"},
      {{"write", 1, EDQUOT}, Errc::kDiskFull, "write"},
      {{"fsync", 0, EIO}, Errc::kIo, "fsync"},
      {{"fsync", 0, ENOSPC}, Errc::kDiskFull, "fsync"},
      {{"close", 0, EDQUOT}, Errc::kDiskFull, "close"},
      {{"close", 0, EIO}, Errc::kIo, "close"},
  };
  for (const Case& each : kCases) {
    Fault fault = each.fault;
    g_fault = &fault;
    const auto done = two_tensors().write(path_);
    g_fault = nullptr;
    ASSERT_TRUE(fault.happened) << each.step;
    ASSERT_FALSE(done.has_value()) << each.step;
    EXPECT_EQ(done.error().code, each.code) << done.error().what;
    EXPECT_EQ(done.error().what,
              "write model " + path_ + ": " + each.step + ": " + std::strerror(each.fault.error));
    EXPECT_EQ(contents(), "old") << each.step;
    EXPECT_EQ(files(), 1) << each.step;
  }
}

// Neither a signal nor a short write of the system is a failure.
TEST_F(FaultsTest, Write_WhenInterruptedOrShort_Continues) {
  const std::string whole = two_tensors().to_bytes().value();
  for (const int error : {EINTR, 0}) {
    for (const int left : {0, 1}) {
      Fault fault{"write", left, error};
      g_fault = &fault;
      const auto done = two_tensors().write(path_);
      g_fault = nullptr;
      ASSERT_TRUE(done.has_value()) << done.error().what;
      EXPECT_TRUE(fault.happened);
      EXPECT_TRUE(contents() == whole) << error << " " << left;
    }
  }
}

TEST_F(FaultsTest, Write_WhenAFolderHasTheName_FailsAndLeavesIt) {
  const std::string taken = folder_ + "/taken";
  std::filesystem::create_directory(taken);
  const auto done = two_tensors().write(taken);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Errc::kIo);
  EXPECT_EQ(done.error().what, "write model " + taken + ": rename: " + std::strerror(EISDIR));
  EXPECT_TRUE(std::filesystem::is_directory(taken));
  EXPECT_EQ(files(), 2);
}

// The new name may then be lost in a power failure, so the write must not count as done.
TEST_F(FaultsTest, Write_WhenTheFolderCannotBeSynced_Fails) {
  const std::string whole = two_tensors().to_bytes().value();
  Fault fault{"fsync", 1, EIO};
  g_fault = &fault;
  const auto unsynced = two_tensors().write(path_);
  g_fault = nullptr;
  ASSERT_FALSE(unsynced.has_value());
  EXPECT_EQ(unsynced.error().code, Errc::kIo);
  EXPECT_EQ(unsynced.error().what,
            "write model " + path_ + ": fsync its folder: " + std::strerror(EIO));
  EXPECT_TRUE(contents() == whole);
  EXPECT_EQ(files(), 1);

  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit none { 0, before.rlim_max };
  const auto unopened = two_tensors().write(path_, [&](std::uint64_t done, std::uint64_t total) {
    if (done < total) return;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(unopened.has_value());
  EXPECT_EQ(unopened.error().code, Errc::kIo);
  EXPECT_EQ(unopened.error().what,
            "write model " + path_ + ": open its folder: " + std::strerror(EMFILE));
  EXPECT_EQ(files(), 1);
}

TEST_F(FaultsTest, Write_WithARelativePath_WritesToTheWorkingDirectory) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const auto done = two_tensors().write("m.gguf");
  std::filesystem::current_path(before);
  ASSERT_TRUE(done.has_value()) << done.error().what;
  EXPECT_TRUE(contents() == two_tensors().to_bytes().value());
  EXPECT_EQ(files(), 1);
}

TEST_F(FaultsTest, Open_WhenTheFileCannotBeMapped_Fails) {
  Fault fault{"fstat", 0, EIO};
  g_fault = &fault;
  const auto unknown = File::open(path_);
  g_fault = nullptr;
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, Errc::kIo);
  EXPECT_EQ(unknown.error().what, "open model " + path_ + ": " + std::strerror(EIO));

  std::filesystem::resize_file(path_, 0);
  const auto empty = File::open(path_);
  ASSERT_FALSE(empty.has_value());
  EXPECT_EQ(empty.error().code, Errc::kIo);
  EXPECT_EQ(empty.error().what, "open model " + path_ + ": the file is empty");

  const int large = ::memfd_create("large", MFD_CLOEXEC);
  ASSERT_GE(large, 0);
  ASSERT_EQ(::ftruncate(large, std::int64_t{1} << 60), 0);
  const std::string path = "/proc/self/fd/" + std::to_string(large);
  const auto file = File::open(path);
  ::close(large);
  ASSERT_FALSE(file.has_value());
  EXPECT_EQ(file.error().code, Errc::kIo);
  EXPECT_EQ(file.error().what, "open model " + path + ": mmap: " + std::strerror(ENOMEM));
}

}  // namespace
}  // namespace holdfast::gguf::faults_test
