#pragma once

#include <string>
#include <vector>

#include "tests/tidy/source.hpp"

namespace rehearse::tidy {

/// A place where a rule is broken, with what to do instead.
///
/// A line that must break a rule says so in a comment on itself or on the line before, with the
/// rule's name and the reason: `// tidy: banned-name: the reason`.
struct Finding {
  std::string path;
  int line;
  std::string rule;
  std::string message;
};

using Findings = std::vector<Finding>;

/// Every rule over the whole project, less what comments allow.
Findings check(const Tree& tree);

// One rule each; they append what they find. The comments give the name used in `Finding::rule`.

/// banned-name: calls and types that shared code has another way for.
void check_banned_names(const Source& source, Findings& findings);
/// swallowed-exception: a `catch (...)` that neither rethrows nor keeps the exception.
void check_swallowed_exceptions(const Source& source, Findings& findings);
/// mutable-static: state that outlives its owner.
void check_mutable_statics(const Source& source, Findings& findings);
/// include-arrow: who may include whom.
void check_include_arrows(const Source& source, Findings& findings);
/// wide-torch-header, torch-free: which parts see which of torch's headers.
void check_torch_headers(const Source& source, Findings& findings);
/// autograd-headers: how many files include autograd's headers, which cost ten seconds each.
void check_autograd_header_count(const Tree& tree, Findings& findings);
/// long-file, long-function, no-pragma-once.
void check_shape(const Source& source, Findings& findings);
/// no-readme: each part with sources says what lives there.
void check_readmes(const Tree& tree, Findings& findings);
/// unfinished, private-path: marks of unfinished work; paths of one machine.
void check_words(const std::string& path, const std::string& text, Findings& findings);

}  // namespace rehearse::tidy
