//! A GPU's memory and compute slices as two rows of boxes.

use super::Canvas;
use crate::mig::PlannedGpu;
use crate::text::columns;

/// The widest and the narrowest slice, with its left border.
const MAX_SLICE_WIDTH: usize = 9;
const MIN_SLICE_WIDTH: usize = 2;
const LABEL: usize = 10;

/// The pieces of boxes: horizontal, vertical, and the corners and crossings of each line from left
/// to right.
struct Pieces {
    horizontal: char,
    vertical: char,
    top: [char; 3],
    bottom: [char; 3],
}

const LINES: Pieces = Pieces {
    horizontal: '─',
    vertical: '│',
    top: ['┌', '┬', '┐'],
    bottom: ['└', '┴', '┘'],
};
const ASCII: Pieces = Pieces {
    horizontal: '-',
    vertical: '|',
    top: ['+', '+', '+'],
    bottom: ['+', '+', '+'],
};

/// A box: its number of slices, and its name; None for what is free.
struct Part<'a> {
    size: u8,
    name: Option<&'a str>,
}

/// The picture, with lines of at most the canvas' width.
pub(crate) fn picture(gpu: &PlannedGpu, canvas: Canvas) -> String {
    let total = usize::from(gpu.slots.total.max(gpu.compute_slices.total)).max(1);
    let cell =
        (canvas.width.saturating_sub(LABEL + 1) / total).clamp(MIN_SLICE_WIDTH, MAX_SLICE_WIDTH);
    let pieces = if canvas.unicode { &LINES } else { &ASCII };
    let numbers = (0..gpu.slots.total)
        .map(|slot| format!("{slot:<cell$}"))
        .collect::<String>();
    let mut out = format!("{:LABEL$} {}\n", "", numbers.trim_end());
    out += &row("memory", &memory(gpu), cell, pieces);
    out += &row("compute", &compute(gpu), cell, pieces);
    out
}

fn memory(gpu: &PlannedGpu) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut at = 0;
    for instance in &gpu.instances {
        parts.extend((at..instance.start).map(|_| Part {
            size: 1,
            name: None,
        }));
        parts.push(Part {
            size: instance.size,
            name: Some(&instance.profile),
        });
        at = instance.start + instance.size;
    }
    parts.extend((at..gpu.slots.total).map(|_| Part {
        size: 1,
        name: None,
    }));
    parts
}

/// The driver does not say which compute slices an instance has: they are counted from the left.
fn compute(gpu: &PlannedGpu) -> Vec<Part<'_>> {
    let used = gpu.instances.iter().map(|i| Part {
        size: i.compute_slices,
        name: Some(i.profile.as_str()),
    });
    let free = (gpu.compute_slices.used..gpu.compute_slices.total).map(|_| Part {
        size: 1,
        name: None,
    });
    used.chain(free).collect()
}

fn row(label: &str, parts: &[Part], cell: usize, pieces: &Pieces) -> String {
    let [top, bottom] = [pieces.top, pieces.bottom].map(|[left, middle, right]| {
        let mut line = String::from(left);
        for (n, part) in parts.iter().enumerate() {
            line.extend(std::iter::repeat_n(
                pieces.horizontal,
                usize::from(part.size) * cell - 1,
            ));
            line.push(if n + 1 == parts.len() { right } else { middle });
        }
        line
    });
    let mut middle = String::from(pieces.vertical);
    for part in parts {
        let room = usize::from(part.size) * cell - 1;
        let name = part
            .name
            .map(|name| fitting(name, room))
            .unwrap_or_default();
        middle += &format!("{name:<room$}{}", pieces.vertical);
    }
    format!(
        "{:LABEL$}{top}\n{label:>width$} {middle}\n{:LABEL$}{bottom}\n",
        "",
        "",
        width = LABEL - 1
    )
}

/// The name, or as much of it as there is room for: `1g.10gb+me`, `1g`, `1`.
fn fitting(name: &str, room: usize) -> String {
    if columns(name) <= room {
        return name.to_owned();
    }
    let short = name.split('.').next().unwrap_or_default();
    short.chars().take(room).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compat::PciDevice;
    use crate::database::embedded;
    use crate::mig::{Board, Layout, Wanted, planned};

    fn drawn(device: u16, layout: &str, canvas: Canvas) -> String {
        let board = Board::known(&embedded(), 0, Some(PciDevice(device)), None, "");
        let geometry = board.geometry.clone().expect("a geometry");
        let layout = Layout::read(&geometry, layout).expect("a layout");
        picture(
            &planned(&board, &geometry, &Wanted::Layout(layout)).expect("it fits"),
            canvas,
        )
    }

    #[test]
    fn a_picture_has_a_box_for_each_instance_and_each_free_slice() {
        let expected = [
            "           0     1     2     3     4     5     6     7\n",
            "          +-----------------------+-----------+-----+-----+\n",
            "   memory |4g.20gb                |2g.10gb    |1g   |     |\n",
            "          +-----------------------+-----------+-----+-----+\n",
            "          +-----------------------+-----------+-----+\n",
            "  compute |4g.20gb                |2g.10gb    |1g   |\n",
            "          +-----------------------+-----------+-----+\n",
        ];
        assert_eq!(
            drawn(
                0x20b0,
                "4g.20gb,2g.10gb,1g.5gb",
                Canvas {
                    width: 60,
                    unicode: false
                }
            ),
            expected.concat()
        );
    }

    #[test]
    fn a_picture_fits_every_width_on_every_board() {
        for (device, layout) in [
            (0x20b0, "7x1g.5gb"),
            (0x2bb5, "4x1g.24gb"),
            (0x20b7, "2g.12gb"),
            (0x2c31, "none"),
        ] {
            for width in [40, 60, 80, 120, 200] {
                for unicode in [true, false] {
                    let text = drawn(device, layout, Canvas { width, unicode });
                    assert!(
                        text.lines().all(|line| columns(line) <= width),
                        "{width}\n{text}"
                    );
                    assert!(unicode || text.is_ascii());
                }
            }
        }
    }
}
