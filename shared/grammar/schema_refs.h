#pragma once
// Resolves the references of a schema: its documents, the schemas in them that an "$id" makes
// documents of their own, and their anchors.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shared/grammar/json_tree.h"

namespace holdfast::grammar {

/// A resource: a document, or a schema with an "$id". References are relative to the resource that
/// contains them.
using BaseId = std::uint32_t;

/// A schema that a reference leads to, and the resource that its own references are relative to.
struct SchemaTarget {
  const JsonTree* tree = nullptr;
  BaseId base = 0;
};

/// The resources and anchors of documents. Not thread-safe. The trees outlive it.
class SchemaRefs {
 public:
  /// Reads the ids and anchors of a whole document.
  BaseId add_document(const JsonTree& root);
  /// Returns the resource of the contents of `tree`, which itself is in `outer`.
  BaseId inside(const JsonTree& tree, BaseId outer) const;
  /// Returns the target of a reference in `base`. kUnsupported: it leads out of the document;
  /// kInvalidRequest: there is nothing. `keyword` and `pointer` are for errors.
  Result<SchemaTarget> find(const std::string& ref, BaseId base, const std::string& keyword,
                            const std::string& pointer) const;
  /// Does the same for "$dynamicRef", where its target is unambiguous.
  Result<SchemaTarget> find_dynamic(const std::string& ref, BaseId base,
                                    const std::string& pointer) const;

 private:
  struct Resource {
    const JsonTree* root;
    std::string uri;  // empty for a document without "$id"
    std::uint32_t document;
    std::map<std::string, SchemaTarget> anchors;
    std::map<std::string, SchemaTarget> dynamic_anchors;
  };
  BaseId base_of(const JsonTree& tree, BaseId base);
  void scan(const JsonTree& tree, BaseId base, bool is_map);
  void note_anchors(const JsonTree& tree, BaseId base);
  const BaseId* by_uri(const std::string& uri, BaseId base) const;
  SchemaTarget follow(BaseId base, const std::string& pointer) const;

  std::vector<Resource> resources_;
  std::map<std::pair<std::uint32_t, std::string>, BaseId> by_uri_;  // document, URI
  std::uint32_t documents_ = 0;
};

}  // namespace holdfast::grammar
