// Goal: bytes that are made on demand exist exactly while they are held, are the same each time,
// and cost no memory otherwise. Method: a maker that counts; the pages of the region by mincore; a
// read outside of a hold in a child that must die of it.

#include "shared/gguf/made.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace holdfast::gguf::made_test {
namespace {

constexpr std::size_t kBytes = 100'000;  // no multiple of the page size

std::size_t pages_there(ByteSpan span) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> there((span.size() + page - 1) / page);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(span.data()), span.size(), there.data()), 0);
  std::size_t n = 0;
  for (const unsigned char c : there) n += c & 1;
  return n;
}

TEST(MadeBytes, MadeBytes_WhileHeld_AreResident) {
  int made = 0;
  const auto bytes = MadeBytes::create(kBytes, [&](std::byte* out) -> Result<void> {
                       ++made;
                       std::memset(out, 7, kBytes);
                       return {};
                     }).value();
  TensorInfo tensor;
  tensor.data = bytes->span();
  tensor.made = bytes.get();
  EXPECT_EQ(bytes->span().size(), kBytes);
  EXPECT_EQ(pages_there(tensor.data), 0u);
  for (int round = 1; round <= 2; ++round) {
    {
      auto first = Held::of(tensor).value();
      EXPECT_EQ(made, round);
      const Held second = Held::of(tensor).value();
      const Held moved = std::move(first);
      EXPECT_EQ(made, round);  // held already
      EXPECT_EQ(tensor.data[kBytes - 1], std::byte{7});
      EXPECT_GT(pages_there(tensor.data), 0u);
    }
    EXPECT_EQ(pages_there(tensor.data), 0u);
  }
}

TEST(MadeBytes, Read_WhenBytesAreNotHeld_EndsTheProcess) {
  const auto bytes = MadeBytes::create(kBytes, [](std::byte* out) -> Result<void> {
                       out[0] = {};
                       return {};
                     }).value();
  const volatile auto* at = reinterpret_cast<const volatile unsigned char*>(bytes->span().data());
  EXPECT_DEATH((void)at[0], "");
  { const Held held; }  // holds nothing
  ASSERT_TRUE(bytes->hold().has_value());
  EXPECT_EQ(static_cast<int>(at[0]), 0);
  bytes->release();
  EXPECT_DEATH((void)at[0], "");
}

// The system refuses when it has no memory for its own tables too. Here the pages do not exist.
TEST(MadeBytes, Hold_WhenMemoryProtectionFails_ReturnsMemoryExhausted) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto take_last_page = [&](const MadeBytes& bytes) {
    auto* at = const_cast<std::byte*>(bytes.span().data());
    EXPECT_EQ(::munmap(at + kBytes / page * page, page), 0);
  };
  int made = 0;
  const auto never = MadeBytes::create(kBytes, [&](std::byte*) -> Result<void> {
                       ++made;
                       return {};
                     }).value();
  take_last_page(*never);
  TensorInfo tensor;
  tensor.made = never.get();
  const auto held = Held::of(tensor);
  ASSERT_FALSE(held.has_value());
  EXPECT_EQ(held.error().code, Errc::kMemoryExhausted);
  EXPECT_EQ(held.error().what, "put a tensor of 100000 bytes together: mprotect: " +
                                   std::string(std::strerror(ENOMEM)));
  EXPECT_EQ(made, 0);

  const MadeBytes* late = nullptr;
  const auto bytes = MadeBytes::create(kBytes, [&](std::byte*) -> Result<void> {
                       ++made;
                       take_last_page(*late);
                       return {};
                     }).value();
  late = bytes.get();
  const auto hold = bytes->hold();
  ASSERT_FALSE(hold.has_value());
  EXPECT_EQ(hold.error().code, Errc::kMemoryExhausted);
  EXPECT_EQ(made, 1);
  EXPECT_DEATH(bytes->release(), "holds_ > 0");  // nothing is held
}

TEST(MadeBytes, Hold_WhenMakingFails_HoldsNothingAndCanBeTriedAgain) {
  bool fails = true;
  const auto bytes = MadeBytes::create(kBytes, [&](std::byte* out) -> Result<void> {
                       std::memset(out, 7, kBytes);
                       if (fails) return Error{Errc::kFileInvalid, "a scale is no number"};
                       return {};
                     }).value();
  TensorInfo tensor;
  tensor.data = bytes->span();
  tensor.made = bytes.get();
  const auto held = Held::of(tensor);
  ASSERT_FALSE(held.has_value());
  EXPECT_EQ(held.error().code, Errc::kFileInvalid);
  EXPECT_EQ(held.error().what, "a scale is no number");
  EXPECT_EQ(pages_there(tensor.data), 0u);
  EXPECT_DEATH(bytes->release(), "holds_ > 0");
  fails = false;
  const Held again = Held::of(tensor).value();
  EXPECT_EQ(tensor.data[kBytes - 1], std::byte{7});
}

TEST(MadeBytes, Create_WhenAddressSpaceIsExhausted_ReturnsMemoryExhausted) {
  const auto made =
      MadeBytes::create(std::size_t{1} << 60, [](std::byte*) { return Result<void>(); });
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, Errc::kMemoryExhausted);
}

}  // namespace
}  // namespace holdfast::gguf::made_test
