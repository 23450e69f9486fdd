// Goal: the programs that are built have the protections against memory faults that the compiler
// and the linker were asked for. Method: reads the ELF of each program: headers, dynamic section,
// imports, code.

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

namespace holdfast::sandbox::hardening_test {
namespace {

constexpr std::uint64_t kPie = 0x08000000;  // DF_1_PIE, newer than some elf.h
#if defined(__x86_64__)
constexpr bool kHasLandings = true;  // endbr64, where an indirect jump may land
#else
constexpr bool kHasLandings = false;
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

class Program {
 public:
  explicit Program(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    if (!good()) return;
    for (int i = 0; i < head().e_phnum; ++i) {
      segments_.push_back(at<Elf64_Phdr>(head().e_phoff + i * sizeof(Elf64_Phdr)));
    }
    read_dynamic();
  }
  bool good() const {
    return bytes_.size() > sizeof(Elf64_Ehdr) && bytes_.compare(0, SELFMAG, ELFMAG) == 0;
  }
  Elf64_Ehdr head() const { return at<Elf64_Ehdr>(0); }
  const std::vector<Elf64_Phdr>& segments() const { return segments_; }
  bool has_segment(std::uint32_t type) const {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == type) return true;
    }
    return false;
  }
  std::uint64_t dynamic(std::int64_t tag) const {
    for (const Elf64_Dyn& entry : dynamic_) {
      if (entry.d_tag == tag) return entry.d_un.d_val;
    }
    return 0;
  }
  const std::set<std::string>& imports() const { return imports_; }
  std::size_t landings() const {
    std::size_t count = 0;
    for (const Elf64_Phdr& s : segments_) {
      if (s.p_type != PT_LOAD || (s.p_flags & PF_X) == 0) continue;
      const std::string_view code(bytes_.data() + s.p_offset, s.p_filesz);
      for (std::size_t i = code.find(kLanding); i != code.npos; i = code.find(kLanding, i + 4)) {
        ++count;
      }
    }
    return count;
  }

 private:
  static constexpr std::string_view kLanding = "\xf3\x0f\x1e\xfa";

  template <class T>
  T at(std::size_t offset) const {
    T value{};
    if (offset + sizeof value <= bytes_.size()) {
      std::memcpy(&value, bytes_.data() + offset, sizeof value);
    }
    return value;
  }
  void read_dynamic() {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type != PT_DYNAMIC) continue;
      for (std::size_t i = 0; i < segment.p_filesz / sizeof(Elf64_Dyn); ++i) {
        dynamic_.push_back(at<Elf64_Dyn>(segment.p_offset + i * sizeof(Elf64_Dyn)));
      }
    }
    for (int i = 0; i < head().e_shnum; ++i) {
      const auto section = at<Elf64_Shdr>(head().e_shoff + i * sizeof(Elf64_Shdr));
      if (section.sh_type == SHT_DYNSYM) read_imports(section);
    }
  }
  void read_imports(const Elf64_Shdr& symbols) {
    const auto names = at<Elf64_Shdr>(head().e_shoff + symbols.sh_link * sizeof(Elf64_Shdr));
    for (std::size_t i = 0; i < symbols.sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = at<Elf64_Sym>(symbols.sh_offset + i * sizeof(Elf64_Sym));
      if (symbol.st_shndx != SHN_UNDEF) continue;
      imports_.insert(bytes_.c_str() + names.sh_offset + symbol.st_name);
    }
  }

  std::string bytes_;
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Dyn> dynamic_;
  std::set<std::string> imports_;
};

class Hardening : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string path = std::string(HOLDFAST_BIN_DIR "/") + GetParam();
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not built";
    program_ = std::make_unique<Program>(path);
    ASSERT_TRUE(program_->good()) << path;
  }
  std::unique_ptr<Program> program_;
};

TEST_P(Hardening, Program_IsPositionIndependent) {
  EXPECT_EQ(program_->head().e_type, ET_DYN);
  EXPECT_TRUE(program_->has_segment(PT_INTERP));
  EXPECT_NE(program_->dynamic(DT_FLAGS_1) & kPie, 0u) << "a library, no program";
}

TEST_P(Hardening, Program_HasFullRelro) {
  EXPECT_TRUE(program_->has_segment(PT_GNU_RELRO));
  const bool now = (program_->dynamic(DT_FLAGS) & DF_BIND_NOW) != 0 ||
                   (program_->dynamic(DT_FLAGS_1) & DF_1_NOW) != 0;
  EXPECT_TRUE(now) << "bound lazily, so the table stays writable";
}

TEST_P(Hardening, Program_HasNoWritableExecutableSegment) {
  ASSERT_TRUE(program_->has_segment(PT_GNU_STACK));
  for (const Elf64_Phdr& segment : program_->segments()) {
    const bool both = (segment.p_flags & PF_W) != 0 && (segment.p_flags & PF_X) != 0;
    EXPECT_FALSE(both) << "segment of type " << segment.p_type;
    if (segment.p_type == PT_GNU_STACK) {
      EXPECT_EQ(segment.p_flags & PF_X, 0u);
    }
  }
}

TEST_P(Hardening, Program_HasStackProtectorAndFortify) {
  if (kSanitized) GTEST_SKIP() << "sanitizers have guards of their own";
  EXPECT_EQ(program_->imports().count("__stack_chk_fail"), 1u);
  std::size_t fortified = 0;
  for (const std::string& name : program_->imports()) {
    if (name.ends_with("_chk") && name.starts_with("__")) ++fortified;
  }
#if defined(__OPTIMIZE__)
  EXPECT_GE(fortified, 2u);
#endif
}

TEST_P(Hardening, Program_HasMarkedIndirectBranchTargets) {
  if (!kHasLandings) GTEST_SKIP() << "another architecture";
  // Debian 12's start files drop the note that would turn the check on, so the code is searched.
  EXPECT_GE(program_->landings(), 1'000u);
}

INSTANTIATE_TEST_SUITE_P(Programs, Hardening,
                         testing::Values("holdfast", "holdfastd", "holdfast-ingress",
                                         "holdfast-worker", "holdfast-gateway"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace holdfast::sandbox::hardening_test
