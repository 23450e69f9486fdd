#pragma once

// The declarations of a header that others use, found in its text, and which have a doc comment.

#include <cstddef>
#include <string>
#include <vector>

#include "tests/tidy/source_tree.h"

namespace holdfast::tidy {

/// One type or function of a header.
struct Declaration {
  std::size_t line = 0;  // from 1: where it begins, with `template`
  std::string text;      // without blanks in a row; a function's without its body
  bool documented = false;
};

/// The declarations that count. Forward declarations, members that are defined outside of their
/// class, constructors and destructors do not: the comment of the class says how one is made.
enum class Counted {
  kNamespaceScope,            // definitions of types; free functions, declared or defined
  kNamespaceScopeAndMethods,  // and the public methods of classes at namespace scope
};

/// Returns the declarations of a header in order. One is documented by a comment directly above it,
/// by one at the end of a line of its head, or by one above the group in which it stands: the
/// declarations without a blank line between them. A label of access, a line of the preprocessor
/// and a type of several lines end a group.
///
/// Braces that do not balance, so that what is found is wrong, are a finding.
std::vector<Declaration> declarations_of(const Source& header, Counted counted, Findings& findings);

}  // namespace holdfast::tidy
