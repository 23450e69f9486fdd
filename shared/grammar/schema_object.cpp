#include <algorithm>
#include <set>

#include "shared/grammar/schema_builder.h"

namespace holdfast::grammar {
namespace {

constexpr std::size_t kPatternsMax = 4;  // patternProperties of one object: 2^n classes of names

/// The members of an object as an automaton: listed ones in their order, each at most once, then
/// free ones. Where counts matter a state also counts the members so far.
class ObjectNfa {
 public:
  struct Named {
    std::string key;  // with quotes
    RuleId rule;
    bool required;
  };
  struct Free {
    RuleId key;
    RuleId rule;
  };
  struct Counts {
    std::uint32_t min = 0;
    std::uint32_t max = kUnlimited;
  };

  ObjectNfa(Nfa& nfa, JsonRules& json, const std::vector<Named>& named,
            const std::vector<Free>& free, Counts counts)
      : nfa_(nfa), json_(json), named_(named), free_(free), counts_(counts) {}

  void build() {
    const std::uint32_t begin = nfa_.append(nfa_.append_literal(0, "{"), json_.gap());
    end_ = nfa_.add_state();
    nfa_.set_accept(end_);
    // After i listed names, by the number that are present; 0 is a case of its own, for the comma.
    std::vector<std::uint32_t> here(levels() + 1, kNone);
    here[0] = begin;
    for (const Named& member : named_) {
      if (!nfa_.budget().ok()) return;
      here = add_named(member, here);
    }
    add_free(here);
    for (std::uint32_t n = 0; n < here.size(); ++n) {
      if (here[n] == kNone || is_below_min(n)) continue;
      close(here[n], n == 0);
    }
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFFu;
  bool counted() const { return counts_.min > 0 || counts_.max != kUnlimited; }
  /// Returns the largest count of members that is distinguished once free ones are among them.
  std::uint32_t free_levels() const { return counts_.max == kUnlimited ? 1 : counts_.max; }
  bool is_below_min(std::uint32_t n) const { return counted() && n < counts_.min; }
  /// Returns the largest count of members that is distinguished: without counts only none and some.
  std::uint32_t levels() const {
    if (!counted()) return 1;
    const auto all = static_cast<std::uint32_t>(named_.size());
    return std::max(1u, std::min(all, counts_.max));
  }
  std::uint32_t above(std::uint32_t n) const {
    if (!counted()) return 1;
    return n + 1;
  }
  void close(std::uint32_t from, bool nothing) {
    const std::uint32_t done = nothing ? from : nfa_.append(from, json_.gap());
    nfa_.add_empty(nfa_.append_literal(done, "}"), end_);
  }
  /// Returns the state where the next member begins.
  std::uint32_t next_member(std::uint32_t from, bool first) {
    return first ? from : nfa_.append(nfa_.append_literal(from, ","), json_.gap());
  }

  std::vector<std::uint32_t> add_named(const Named& member,
                                       const std::vector<std::uint32_t>& here) {
    std::vector<std::uint32_t> out(here.size(), kNone);
    const auto state = [&](std::uint32_t n) {
      if (out[n] == kNone) out[n] = nfa_.add_state();
      return out[n];
    };
    // The name is spelled once for all states that lead to one count.
    std::vector<std::uint32_t> entry(here.size(), kNone);
    for (std::uint32_t n = 0; n < here.size(); ++n) {
      if (here[n] == kNone) continue;
      const std::uint32_t to = above(n);
      if (to < out.size() && to <= counts_.max) {
        if (entry[to] == kNone) {
          entry[to] = nfa_.add_state();
          const std::uint32_t named = nfa_.append_literal(entry[to], member.key);
          nfa_.add_call(nfa_.append(named, JsonRules::colon()), member.rule, state(to));
        }
        nfa_.add_empty(next_member(here[n], n == 0), entry[to]);
      }
      if (!member.required) nfa_.add_empty(here[n], state(n));
    }
    return out;
  }

  /// Adds free members. They may repeat a name, so for the minimum any number of them counts as
  /// one.
  void add_free(const std::vector<std::uint32_t>& here) {
    if (free_.empty()) return;
    const std::uint32_t max = free_levels();
    std::vector<std::uint32_t> after(max + 1, kNone);
    for (std::uint32_t n = 1; n <= max && nfa_.budget().ok(); ++n) after[n] = nfa_.add_state();
    for (std::uint32_t n = 0; n < here.size(); ++n) {
      if (here[n] == kNone || is_below_min(n + 1)) continue;
      add_members_after(n, here[n], after);
    }
    for (std::uint32_t n = 1; n <= max && nfa_.budget().ok(); ++n) {
      close(after[n], false);
      add_members_after(n, after[n], after);
    }
  }
  /// Adds the free members that follow n others. `after`: where they end, by the number of members.
  void add_members_after(std::uint32_t n, std::uint32_t from,
                         const std::vector<std::uint32_t>& after) {
    const std::uint32_t to = counts_.max == kUnlimited ? 1 : n + 1;
    if (to < after.size()) add_members(next_member(from, n == 0), after[to]);
  }
  void add_members(std::uint32_t from, std::uint32_t to) {
    for (const Free& member : free_) {
      const std::uint32_t name = nfa_.add_state();
      nfa_.add_call(from, member.key, name);
      nfa_.add_call(nfa_.append(name, JsonRules::colon()), member.rule, to);
    }
  }

  Nfa& nfa_;
  JsonRules& json_;
  const std::vector<Named>& named_;
  const std::vector<Free>& free_;
  const Counts counts_;
  std::uint32_t end_ = 0;
};

}  // namespace

bool SchemaBuilder::has_false(const SchemaSet& set) const {
  return std::any_of(set.begin(), set.end(), [this](SchemaId id) { return reader_.is_false(id); });
}

/// Returns the schemas of a member of this name, part by part.
Result<SchemaSet> SchemaBuilder::member_schemas(const Conjunct& c, const std::string& name,
                                                bool& is_named) {
  std::vector<SchemaId> ids;
  is_named = false;
  for (const ObjectPart& part : c.objects) {
    if (!rules_.budget().take_work(part.properties.size() + 1)) {
      return rules_.budget().error("compile JSON schema");
    }
    const std::size_t before = ids.size();
    for (const auto& [key, id] : part.properties) {
      if (key == name) ids.push_back(id);
    }
    for (const auto& [pattern, id] : part.patterns) {
      HOLDFAST_TRY(const Dfa* dfa, pattern_dfa(pattern, c.pointer));
      if (dfa->matches(json_escaped(name))) ids.push_back(id);
    }
    if (ids.size() > before) {
      is_named = true;
    } else if (part.additional) {
      ids.push_back(*part.additional);
    }
  }
  return reader_.set_of(std::move(ids));
}

namespace {

/// Returns the names that "properties" lists, in order of appearance, then the other required ones.
std::vector<std::string> names_in(const Conjunct& c) {
  std::vector<std::string> names;
  std::set<std::string> unique;
  for (const ObjectPart& part : c.objects) {
    for (const auto& [name, id] : part.properties) {
      if (unique.insert(name).second) names.push_back(name);
    }
  }
  for (const std::string& name : c.required) {
    if (unique.insert(name).second) names.push_back(name);
  }
  return names;
}

}  // namespace

/// Returns the listed and the required members, with their schemas; one with kDead alone if one of
/// them can have no value.
Result<std::vector<std::pair<std::string, SchemaSet>>> SchemaBuilder::named_members(
    const Conjunct& c) {
  Dfa allowed;
  if (!c.names.empty()) {
    HOLDFAST_TRY(allowed, names_dfa(c.names));
  }
  std::vector<std::pair<std::string, SchemaSet>> out;
  for (const std::string& name : names_in(c)) {
    bool is_named = false;
    HOLDFAST_TRY(SchemaSet set, member_schemas(c, name, is_named));
    const bool bad_name = !c.names.empty() && !allowed.matches(json_escaped(name));
    if (!bad_name && !has_false(set)) {
      out.emplace_back(name, std::move(set));
    } else if (c.is_required(name)) {
      return std::vector<std::pair<std::string, SchemaSet>>{{name, SchemaSet{kDead}}};
    }
  }
  return out;
}

namespace {

/// Returns the patterns of all parts, in order of appearance.
std::vector<std::string> patterns_of(const Conjunct& c) {
  std::vector<std::string> patterns;
  for (const ObjectPart& part : c.objects) {
    for (const auto& [pattern, id] : part.patterns) {
      const bool is_new = std::find(patterns.begin(), patterns.end(), pattern) == patterns.end();
      if (is_new) patterns.push_back(pattern);
    }
  }
  return patterns;
}

/// Returns true if only listed names may appear, and those that match a pattern.
bool is_closed(const Conjunct& c) {
  const auto lists = [](const ObjectPart& part) {
    return !part.open && (!part.properties.empty() || !part.patterns.empty());
  };
  const auto opens = [](const ObjectPart& part) { return !part.open && part.additional; };
  return std::any_of(c.objects.begin(), c.objects.end(), lists) &&
         std::none_of(c.objects.begin(), c.objects.end(), opens);
}

}  // namespace

/// Returns all names but the listed ones (impossible ones are listed, too).
Result<Dfa> SchemaBuilder::unlisted_names(
    const Conjunct& c, const std::vector<std::pair<std::string, SchemaSet>>& named) {
  Budget& budget = rules_.budget();
  std::set<std::string> taken;
  for (const auto& [name, set] : named) taken.insert(name);
  for (const ObjectPart& part : c.objects) {
    for (const auto& [name, id] : part.properties) taken.insert(name);
  }
  Nfa every(budget);
  every.set_accept(every.append(0, any_characters(), Encoding::kJson));
  Dfa names = intersected(determinised(every), dfa_of_texts(taken, budget), true, budget);
  if (c.names.empty()) return names;
  HOLDFAST_TRY(const Dfa allowed, names_dfa(c.names));
  return intersected(names, allowed, false, budget);
}

/// Returns the schemas of the members whose names match these patterns and no others.
SchemaSet SchemaBuilder::schemas_of_names(const Conjunct& c,
                                          const std::set<std::string>& matched) const {
  std::vector<SchemaId> ids;
  for (const ObjectPart& part : c.objects) {
    bool found = false;
    for (const auto& [pattern, id] : part.patterns) {
      if (!matched.contains(pattern)) continue;
      ids.push_back(id);
      found = true;
    }
    if (!found && part.additional) ids.push_back(*part.additional);
  }
  return reader_.set_of(std::move(ids));
}

Result<std::vector<SchemaBuilder::FreeNames>> SchemaBuilder::free_names(
    const Conjunct& c, const std::vector<std::pair<std::string, SchemaSet>>& named) {
  const std::vector<std::string> patterns = patterns_of(c);
  if (patterns.size() > kPatternsMax) {
    return schema_error(Errc::kUnsupported, "patternProperties", c.pointer,
                        "over " + std::to_string(kPatternsMax) + " patterns in one object");
  }
  HOLDFAST_TRY(const Dfa base, unlisted_names(c, named));
  std::vector<FreeNames> out;
  // Each combination of patterns; without one only where names need not match any.
  for (std::size_t bits = is_closed(c) ? 1 : 0; bits < std::size_t{1} << patterns.size(); ++bits) {
    FreeNames names{base, {}};
    std::set<std::string> matched;
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const bool matches = (bits >> i & 1) != 0;
      HOLDFAST_TRY(const Dfa* dfa, pattern_dfa(patterns[i], c.pointer));
      names.characters = intersected(names.characters, *dfa, !matches, rules_.budget());
      if (matches) matched.insert(patterns[i]);
    }
    names.schemas = schemas_of_names(c, matched);
    if (!has_false(names.schemas) && !names.characters.is_empty()) out.push_back(std::move(names));
  }
  return out;
}

namespace {

bool is_free_object(const Conjunct& c) {
  return c.objects.empty() && c.required.empty() && c.names.empty() && c.min_properties == 0 &&
         !c.max_properties;
}

/// Returns the bounds of the number of members that matter beside `named` listed names.
ObjectNfa::Counts counts_of(const Conjunct& c, std::size_t named, bool is_open) {
  ObjectNfa::Counts counts;
  if (c.min_properties > c.required.size()) counts.min = c.min_properties;
  if (c.max_properties && (is_open || *c.max_properties < named)) counts.max = *c.max_properties;
  return counts;
}

}  // namespace

Result<Expr> SchemaBuilder::object_of(const Conjunct& c) {
  if (is_free_object(c)) return Expr::call(json_.any_object());
  HOLDFAST_TRY(const auto members, named_members(c));
  if (!members.empty() && members[0].second == SchemaSet{kDead}) return Expr::nothing();
  HOLDFAST_TRY(std::vector<FreeNames> free, free_names(c, members));
  std::vector<ObjectNfa::Named> named;
  for (const auto& [name, set] : members) {
    const std::string key = '"' + json_escaped(name) + '"';
    named.push_back({key, rule_of(set), c.is_required(name)});
  }
  std::vector<ObjectNfa::Free> open;
  for (FreeNames& names : free) {
    Nfa nfa(rules_.budget());
    const std::uint32_t quote = nfa.append_literal(0, "\"");
    nfa.set_accept(nfa.append_literal(append_dfa(nfa, quote, names.characters), "\""));
    const RuleId key = rules_.add("names at " + c.pointer, determinised(nfa));
    open.push_back({key, rule_of(names.schemas)});
  }
  const ObjectNfa::Counts counts = counts_of(c, named.size(), !open.empty());
  if (!open.empty() && counts.min > named.size() + 1) {
    return schema_error(Errc::kUnsupported, "minProperties", c.pointer,
                        "names that are not listed may repeat, so they count as one; expected at "
                        "most " +
                            std::to_string(named.size() + 1));
  }
  Nfa nfa(rules_.budget());
  ObjectNfa(nfa, json_, named, open, counts).build();
  if (!rules_.budget().ok()) {
    return schema_error(Errc::kInvalidRequest, "properties", c.pointer,
                        rules_.budget().error("list members").what);
  }
  return Expr::call(rules_.add("object at " + c.pointer, determinised(nfa)));
}

}  // namespace holdfast::grammar
