#include "shared/huggingface/split_file.h"

#include "shared/gguf/parse.h"
#include "shared/gguf/part_name.h"
#include "shared/gguf/writer.h"
#include "shared/huggingface/keys_of.h"

namespace holdfast::huggingface {
namespace {

Error invalid(const std::string& path, const std::string& why) {
  return {Errc::kFileInvalid, "read model " + path + ": " + why};
}

std::string last_part(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

class SplitFile final : public KeysOf {
 public:
  using KeysOf::KeysOf;

  void add(const std::shared_ptr<const gguf::File>& part) {
    all_.insert(all_.end(), part->tensors().begin(), part->tensors().end());
    file_bytes_ += part->file_bytes();
    parts_.push_back(part);
  }
  Result<void> finish(std::optional<std::uint64_t> expected) {
    if (expected && *expected != all_.size()) {
      return invalid(path(), "its parts have " + std::to_string(all_.size()) +
                                 " tensors, expected " + std::to_string(*expected));
    }
    if (set_tensors(std::move(all_))) return {};
    return invalid(path(), "a tensor is in two of its parts");
  }

 private:
  std::vector<std::shared_ptr<const gguf::File>> parts_;
  std::vector<gguf::TensorInfo> all_;
};

/// Returns the keys except those of the split.
Result<std::shared_ptr<const gguf::File>> keys_of(const gguf::File& first) {
  gguf::Writer writer;
  for (const std::string& key : first.keys()) {
    if (!key.starts_with("split.")) writer.copy_key(first, key);
  }
  HOLDFAST_TRY(std::string blob, writer.to_bytes());
  return gguf::File::from_bytes(std::move(blob), std::string(first.name()));
}

Result<void> check_part(const gguf::File& part, const std::string& path, int number, int count) {
  const auto no = part.get_u64("split.no"), of = part.get_u64("split.count");
  const auto text = [](std::optional<std::uint64_t> n, std::uint64_t more) {
    return n ? std::to_string(*n + more) : std::string("none");
  };
  if (no == static_cast<std::uint64_t>(number - 1) && of == static_cast<std::uint64_t>(count)) {
    return {};
  }
  return invalid(path, "it says that it is part " + text(no, 1) + " of " + text(of, 0) +
                           ", expected " + std::to_string(number) + " of " + std::to_string(count));
}

}  // namespace

Result<std::shared_ptr<const gguf::File>> open_parts(const std::string& path,
                                                     std::shared_ptr<const gguf::File> first) {
  const auto count = first->get_u64("split.count").value_or(0);
  const auto name = gguf::part_name(path);
  if (!name || static_cast<std::uint64_t>(name->count) != count) {
    return invalid(path,
                   "it is one of " + std::to_string(count) +
                       " parts, expected a name that ends in -00001-of-" +
                       gguf::PartName{"", 1, static_cast<int>(count % 100'000)}.of(1).substr(10) +
                       ", with the others beside it");
  }
  if (name->number != 1) {
    return invalid(path, "it is part " + std::to_string(name->number) + " of " +
                             std::to_string(name->count) + "; give the first one, " +
                             gguf::quoted(last_part(name->of(1))));
  }
  HOLDFAST_TRY(auto keys, keys_of(*first));
  auto file = std::make_shared<SplitFile>(path, std::move(keys));
  HOLDFAST_CHECKED(check_part(*first, path, 1, name->count));
  file->add(first);
  for (int n = 2; n <= name->count; ++n) {
    HOLDFAST_TRY(const auto part, gguf::File::open(name->of(n)));
    HOLDFAST_CHECKED(check_part(*part, name->of(n), n, name->count));
    file->add(part);
  }
  HOLDFAST_CHECKED(file->finish(first->get_u64("split.tensors.count")));
  return std::shared_ptr<const gguf::File>(std::move(file));
}

}  // namespace holdfast::huggingface
