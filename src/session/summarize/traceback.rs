//! Which lines of a traceback to leave out for a model.
//!
//! IPython shows five lines of source per frame, and most frames are inside libraries: a misspelt column gives a page
//! of pandas. The cause is in the frames of the person's own code, the last frame and the message. For Node.js, all
//! internal frames and those of the kernel are left out, because they show nothing about the cause.

use std::ops::Range;

/// Maximum lines shown: the first frame of the person's own code, and the end.
const LINES: usize = 20;
/// Lines shown of that frame.
const FIRST: usize = 6;

/// A frame as IPython writes it: `File path:line, in name` or `Cell In[n], line m`, then source.
struct Frame {
    lines: Range<usize>,
    in_library: bool,
    /// Another frame follows directly.
    goes_on: bool,
}

/// The indices of the lines to leave out, in order.
pub(super) fn left_out(traceback: &str) -> Vec<usize> {
    let lines: Vec<&str> = traceback.lines().collect();
    let frames = frames(&lines);
    let is_left_out = |(index, line): (usize, &&str)| {
        if is_node_frame(line) {
            return true;
        }
        let Some((at, frame)) = (frames.iter().enumerate())
            .find(|(_, frame)| frame.lines.contains(&index))
            .filter(|(_, frame)| frame.in_library)
        else {
            // The message repeats it.
            return !frames.is_empty() && is_title(line);
        };
        let is_end = at + 1 == frames.len() && !frame.goes_on;
        !(is_end && (is_header(line) || is_marked(line) || line.is_empty()))
    };
    let mut out: Vec<bool> = lines.iter().enumerate().map(is_left_out).collect();
    let shown: Vec<usize> = (0..lines.len()).filter(|&at| !out[at]).collect();
    if shown.len() > LINES {
        let first = frames.iter().find(|frame| !frame.in_library);
        let in_first = |at: &&usize| first.is_some_and(|frame| frame.lines.contains(at));
        let head: Vec<usize> = shown.iter().filter(in_first).take(FIRST).copied().collect();
        let tail = shown.len() + head.len() - LINES;
        for &at in shown.iter().take(tail).filter(|at| !head.contains(at)) {
            out[at] = true;
        }
    }
    (0..lines.len()).filter(|&at| out[at]).collect()
}

fn frames(lines: &[&str]) -> Vec<Frame> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut inside = false;
    for (index, line) in lines.iter().enumerate() {
        if is_header(line) {
            if let Some(last) = frames.last_mut().filter(|_| inside) {
                last.goes_on = true;
            }
            frames.push(Frame {
                lines: index..index + 1,
                in_library: is_library(line),
                goes_on: false,
            });
            inside = true;
        } else if inside && (line.is_empty() || line.starts_with(' ') || is_marked(line)) {
            if let Some(last) = frames.last_mut() {
                last.lines.end = index + 1;
            }
        } else {
            inside = false;
        }
    }
    frames
}

fn is_header(line: &str) -> bool {
    line.starts_with("Cell In[") || line.starts_with("File ") && line.contains(':')
}

/// `----` and `KeyError   Traceback (most recent call last)`
fn is_title(line: &str) -> bool {
    line.starts_with("-----") || line.ends_with("Traceback (most recent call last)")
}

/// Whether the frame's source belongs to a library.
fn is_library(header: &str) -> bool {
    [
        "site-packages/",
        "dist-packages/",
        "/lib/python",
        ".pyx:",
        "<frozen ",
    ]
    .iter()
    .any(|part| header.contains(part))
}

/// Matches `at Module._compile (node:internal/modules/cjs/loader:1554:14)` and frames of the kernels, which run under
/// `node --eval` or from packages. The person's own frames are in files and in `evalmachine.<anonymous>`.
fn is_node_frame(line: &str) -> bool {
    const KERNELS: [&str; 4] = ["nel", "jp-kernel", "ijavascript", "tslab"];
    let Some(frame) = line.trim_start().strip_prefix("at ") else {
        return false;
    };
    let place = frame.rsplit_once('(').map_or(frame, |(_, place)| place);
    place.starts_with("node:")
        || place.starts_with("[eval]")
        || (KERNELS.iter()).any(|kernel| place.contains(&format!("/node_modules/{kernel}/")))
}

/// `----> 3 the line itself`
fn is_marked(line: &str) -> bool {
    line.starts_with('-') && line.trim_start_matches('-').starts_with("> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(traceback: &str) -> String {
        let out = left_out(traceback);
        let lines = traceback
            .lines()
            .enumerate()
            .filter(|(index, _)| !out.contains(index));
        lines.flat_map(|(_, line)| [line, "\n"]).collect()
    }

    const KEY_ERROR: &str = "\
---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
File /venv/lib/python3.11/site-packages/pandas/core/indexes/base.py:3641, in Index.get_loc(self, key)
   3640 try:
-> 3641     return self._engine.get_loc(casted_key)
   3642 except KeyError as err:

File pandas/_libs/index.pyx:168, in pandas._libs.index.IndexEngine.get_loc()
--> 168 'Could not get source, probably due dynamically evaluated source code.'

KeyError: 'temperature'

The above exception was the direct cause of the following exception:

KeyError                                  Traceback (most recent call last)
Cell In[3], line 4
      2 means = {}
      3 for city in cities:
----> 4     means[city] = mean(df, city)

Cell In[2], line 2, in mean(df, city)
      1 def mean(df, city):
----> 2     return df['temperature'].mean()

File /venv/lib/python3.11/site-packages/pandas/core/frame.py:4107, in DataFrame.__getitem__(self, key)
   4105 if self.columns.nlevels > 1:
   4106     return self._getitem_multilevel(key)
-> 4107 indexer = self.columns.get_loc(key)
   4108 if is_integer(indexer):
   4109     indexer = [indexer]

File /venv/lib/python3.11/site-packages/pandas/core/indexes/base.py:3648, in Index.get_loc(self, key)
   3643     if isinstance(casted_key, slice):
-> 3648     raise KeyError(key) from err
   3649 except TypeError:

KeyError: 'temperature'";

    #[test]
    fn the_persons_own_frames_the_last_one_and_the_message_stay() {
        assert_eq!(
            shown(KEY_ERROR),
            "\
KeyError: 'temperature'

The above exception was the direct cause of the following exception:

Cell In[3], line 4
      2 means = {}
      3 for city in cities:
----> 4     means[city] = mean(df, city)

Cell In[2], line 2, in mean(df, city)
      1 def mean(df, city):
----> 2     return df['temperature'].mean()

File /venv/lib/python3.11/site-packages/pandas/core/indexes/base.py:3648, in Index.get_loc(self, key)
-> 3648     raise KeyError(key) from err

KeyError: 'temperature'
"
        );
    }

    #[test]
    fn of_many_frames_the_first_and_the_last_stay() {
        let frames: Vec<String> = (1..40)
            .map(|n| format!("Cell In[{n}], line 1, in f{n}()\n----> 1 f{}()\n\n", n + 1))
            .collect();
        let frames = frames.concat();
        let shown = shown(&format!("{frames}RecursionError: too deep\n"));
        assert!(
            shown.starts_with("Cell In[1], line 1, in f1()\n----> 1 f2()\n\n"),
            "{shown}"
        );
        assert!(
            shown.ends_with("----> 1 f40()\n\nRecursionError: too deep\n"),
            "{shown}"
        );
        assert_eq!(shown.lines().count(), LINES);
    }

    #[test]
    fn frames_of_node_and_of_its_kernel_go() {
        let frames = "\
evalmachine.<anonymous>:1
function f() { null.x }
                    ^

TypeError: Cannot read properties of null (reading 'x')
    at f (evalmachine.<anonymous>:1:20)
    at Object.<anonymous> (/home/ada/lib.js:3:1)
    at evalmachine.<anonymous>:2:1
";
        let node = "\
    at Script.runInThisContext (node:vm:137:12)
    at run ([eval]:1020:15)
    at Worker.<anonymous> (/opt/node_modules/tslab/dist/converter.js:12:5)
    at node:internal/process/task_queues:83:21
";
        assert_eq!(shown(&format!("{frames}{node}")), frames);
    }

    #[test]
    fn what_is_no_python_traceback_stays_as_it_is() {
        for text in [
            "Error in f(1): no such thing",
            "a\n  b\n\nc",
            "",
            "KeyError: 1",
        ] {
            assert_eq!(left_out(text), [0_usize; 0], "{text}");
        }
        let long: Vec<String> = (0..40).map(|n| format!("at frame {n}\n")).collect();
        assert_eq!(left_out(&long.concat()), (0..20).collect::<Vec<_>>());
    }
}
