"""Files with several series."""

SMALL = {"season": 4, "horizon": 3, "context": 4, "hidden": 4, "epochs": 2, "dropout": 0.0, "batch_size": 16}


def month(t):
    return f"{2000 + t // 12}-{t % 12 + 1:02d}"


def write(path, series, plan=None, ahead=0):
    """Long format, the rows of all series interleaved; `plan` by id: a column known ahead, `ahead` rows further."""
    lines = ["when,shop,sales" + (",plan" if plan else "")]
    for t in range(max(map(len, series.values())) + ahead):
        for name, values in series.items():
            if t < len(values) + ahead:
                cells = [month(t), name, repr(float(values[t])) if t < len(values) else ""]
                lines.append(",".join(cells + ([repr(float(plan[name][t]))] if plan else [])))
    path.write_text("\n".join(lines) + "\n")
    return path
