#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rehearse::harness {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `from` into `to`.
std::size_t edit_distance(std::string_view from, std::string_view to);

/// The name that `word` is a slip of: that with the smallest edit distance, the first of equals.
/// Empty if all are so far that nobody meant them.
std::string nearest(std::string_view word, const std::vector<std::string>& names);

/// How a refusal of `word` goes on: `, did you mean "step"? Expected "step" or "time"`, without the
/// question if no name is near. `quote` stands around the name in the question.
std::string instead_of(std::string_view word, const std::vector<std::string>& names,
                       char quote = '"');

/// "a, b or c", each in double quotes.
std::string one_of(const std::vector<std::string>& names);

/// Ids of scenario files: [a-z0-9-]+.
bool is_slug(std::string_view text);

/// Bytes that a terminal would act on become \xNN, and what is long is cut, so that a message
/// about foreign text stays one readable line.
std::string in_quotes(std::string_view text);

}  // namespace rehearse::harness
