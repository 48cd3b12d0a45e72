#pragma once

#include <string>
#include <string_view>

namespace rehearse::tidy {

/// The text with comments, strings and character literals replaced by spaces. Line breaks stay, so
/// offsets and line numbers are those of the text.
std::string blank_comments_and_literals(std::string_view text);

}  // namespace rehearse::tidy
