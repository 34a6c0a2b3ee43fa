//! The words and sentences of `explain`'s own output, apart from those about a subject. The English
//! one is also the place of the translation.

/// A rule of the resolver.
pub const ABOUT_RULES: &str = "This is a rule of the resolver. The reasons and rejections of a plan name the rule that decided, and the exit code 4 names the \
                               rule that nothing satisfies.";
/// What to do about a rule.
pub const SEE_RULES: &str = "see which rules decided on this host";
/// The checks whose findings may be the cause.
pub const POSSIBLY_FROM: &str = "possibly from {ids}";
/// More sources than one.
pub const AND_MORE: &str = "{first} (and {count} more, with -v)";
/// An Xid that needs nothing.
pub const NOTHING_ALONE: &str = "nothing needs to be done for this error alone";
/// An Xid beside one of the same GPU that needs more.
pub const AS_FOR_XID: &str = "what helps against Xid {number} of this GPU helps against this, too";
/// An error of a GPU or an NVSwitch that needs nothing.
pub const NOTHING: &str = "nothing needs to be done";
/// What NVIDIA's list describes.
pub const FOLLOW: &str = "follow NVIDIA's description of Xid {number}: {list}";
/// What to do after a fatal error of an NVSwitch.
pub const REBOOT_FOR_SWITCH: &str = "reboot the host to reset the NVSwitches and GPUs";
/// An Xid without a row.
pub const UNKNOWN_XID: &str = "the database does not know this number";
/// An error of an NVSwitch.
pub const ABOUT_SXIDS: &str = "An NVSwitch reports this error in the kernel log. Fabric Manager's log tells which link and which GPU it concerns.";
/// A fatal one.
pub const FATAL: &str = "Fatal: programs that used links of this NVSwitch were aborted.";
/// One that is not fatal.
pub const NOT_FATAL: &str = "Not fatal: programs went on.";
/// The head of an Xid in a text.
pub const XID_OF: &str = "Xid {number} of the GPU at {gpu}{name}";
/// The head of an SXid in a text.
pub const SXID_OF: &str = "SXid {number} of the NVSwitch at {switch}{name}";
/// The head of an Xid of several GPUs.
pub const XIDS_OF: &str = "Xid {number} of the GPUs at {gpu}{name}";
/// The head of an SXid of several NVSwitches.
pub const SXIDS_OF: &str = "SXid {number} of the NVSwitches at {switch}{name}";
/// More GPUs than are named.
pub const PLACES_AND_MORE: &str = "{places} and {count} more";
/// What a long text has beside what is shown.
pub const MORE_XIDS: &str =
    "The text has {count} more Xids and SXids, each counted once for each GPU.";
/// The head of an error in a text.
pub const ERROR_OF: &str = "{interface} error {number} ({names})";
/// What begins the answer to a text without a known message.
pub const NOT_RECOGNISED: &str = "Not recognised";
/// The answer.
pub const NONE_KNOWN: &str =
    "None of the {count} messages and errors that gpusetup knows is in this text.";
/// What doctor would do.
pub const EXAMINES: &str = "{command}  # examines this host itself";
/// How a message becomes known.
pub const OPEN_ISSUE: &str =
    "Open an issue at the project with the whole text and the cause, once you know it.";
/// A check that contradicts a cause.
pub const PASSES: &str = "{ids} passes on this host";
/// Several of them.
pub const PASS: &str = "{ids} pass on this host";
/// What that means.
pub const SPEAKS_AGAINST: &str = "{check}, which speaks against it";
/// A message without causes.
pub const NOT_ESTABLISHED: &str = "not established: the text alone does not tell";
/// A message that another one explains.
pub const FOLLOWS_FROM: &str = "Follows from that:";
/// A choice that is possible.
pub const FITS: &str = "{asked} fits: {choice}";
/// One that is not.
pub const DOES_NOT_FIT: &str = "{asked} does not fit.";
/// An exit code as a subject.
pub const EXIT_CODE: &str = "exit code {code}";

/// What to do about a framework.
pub const PLAN_FOR: &str = "plan a host for {framework}";

/// All words that can be translated: labels, then sentences.
pub const WORDS: &[&str] = &[
    "also as",
    "board",
    "build",
    "cause",
    "causes",
    "check",
    "compute",
    "cuda",
    "default",
    "do",
    "does",
    "driver",
    "fabric",
    "follows",
    "here",
    "Hint",
    "Instead",
    "look",
    "look now",
    "means",
    "message",
    "mig",
    "Missing?",
    "modules",
    "no check",
    "nvlink",
    "of",
    "reads",
    "release",
    "releases",
    "says",
    "see",
    "So",
    "source",
    "try",
    "Try",
    "values",
    "wrong",
    ABOUT_RULES,
    ABOUT_SXIDS,
    AND_MORE,
    AS_FOR_XID,
    DOES_NOT_FIT,
    ERROR_OF,
    EXAMINES,
    EXIT_CODE,
    FATAL,
    FITS,
    FOLLOW,
    FOLLOWS_FROM,
    MORE_XIDS,
    NONE_KNOWN,
    NOTHING,
    NOTHING_ALONE,
    NOT_ESTABLISHED,
    NOT_FATAL,
    NOT_RECOGNISED,
    OPEN_ISSUE,
    PASS,
    PASSES,
    PLACES_AND_MORE,
    PLAN_FOR,
    POSSIBLY_FROM,
    REBOOT_FOR_SWITCH,
    SEE_RULES,
    SPEAKS_AGAINST,
    SXIDS_OF,
    SXID_OF,
    UNKNOWN_XID,
    XIDS_OF,
    XID_OF,
];

/// A sentence with values in place of its placeholders, in one pass: a value may have braces too.
pub fn filled(sentence: &str, values: &[(&str, &str)]) -> String {
    let mut out = String::with_capacity(sentence.len());
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        out += before;
        let found = after.split_once('}').and_then(|(name, after)| {
            let (_, value) = values.iter().find(|(known, _)| *known == name)?;
            Some((*value, after))
        });
        match found {
            Some((value, tail)) => {
                out += value;
                rest = tail;
            }
            None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_once() {
        assert_eq!(
            filled("{a} and {b}: {c} {", &[("a", "{b}"), ("b", "1")]),
            "{b} and 1: {c} {"
        );
    }
}
