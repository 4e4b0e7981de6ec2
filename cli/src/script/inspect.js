// Values as mongosh shows them: as an expression that makes them, on one line where it fits, and otherwise on several.
(function (cairn, native) {
    "use strict";

    // Marks around the parts of a text that the tool colors, as `look.rs` knows them. They are characters of no text.
    const MARKS = { name: "\ufdd0", text: "\ufdd1", number: "\ufdd2", truth: "\ufdd3", nothing: "\ufdd4", typed: "\ufdd5" };
    const END = "\ufddf";
    const ANY_MARK = /[\ufdd0-\ufddf]/g;
    const isColored = native.isColored();
    let isMarking = false;
    const mark = (part, text) => (isMarking ? MARKS[part] + text + END : text);
    const lengthOf = (text) => (isMarking ? text.replace(ANY_MARK, "").length : text.length);
    // Spaces that fill a text up to a width.
    const margin = (text, width) => " ".repeat(Math.max(width - lengthOf(text), 0));

    // Has the texts that `work` makes of values marked, if answers are colored.
    cairn.marked = function (work) {
        if (isMarking || !isColored) return work();
        isMarking = true;
        try {
            return work();
        } finally {
            isMarking = false;
        }
    };
    // A text that is shown as it is must not look marked.
    cairn.unmarked = (text) => (isColored ? text.replace(ANY_MARK, escaped) : text);

    const WIDTH = 80;
    // What a line has besides its items.
    const FRAME = 10;
    const GAP = 2;
    const COLUMNS_MAX = 12;
    // Arrays with more items than this stand in columns.
    const GROUPED = 6;
    const DEPTH_MAX = 6;
    const ITEMS_MAX = 100;
    // A value with more levels than this below it goes on several lines.
    const LEVELS_ON_A_LINE = 3;

    function escaped(character) {
        const named = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f", "\v": "\\v", "\\": "\\\\" }[character];
        if (named) return named;
        const code = character.charCodeAt(0);
        return code < 256 ? `\\x${code.toString(16).toUpperCase().padStart(2, "0")}` : `\\u${code.toString(16).toUpperCase().padStart(4, "0")}`;
    }

    cairn.quoted = function (text) {
        // The quote that needs no escape, if there is one.
        const quote = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes("`") && !text.includes("${") ? "`" : "'";
        // What would end the line or move a terminal's cursor is escaped, and half of a surrogate pair.
        const inner = text.replace(/[\x00-\x1f\x7f-\x9f\\\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, escaped);
        return cairn.unmarked(quote + (quote === "'" ? inner.replace(/'/g, "\\'") : inner) + quote);
    };

    const nameOf = (name) => (/^[A-Za-z_][A-Za-z_0-9]*$/.test(name) ? name : cairn.quoted(name));

    function scalar(value) {
        if (value === null) return mark("nothing", "null");
        switch (typeof value) {
            case "string": return mark("text", cairn.quoted(value));
            case "number": return mark("number", Object.is(value, -0) ? "-0" : String(value));
            case "bigint": return mark("number", `${value}n`);
            case "symbol": return cairn.unmarked(value.toString());
            case "boolean": return mark("truth", String(value));
            case "undefined": return mark("nothing", "undefined");
            case "function": {
                if (typeof value[cairn.KIND] === "string") return `${value[cairn.KIND]}()`;
                const isClass = /^class\b/.test(Function.prototype.toString.call(value));
                return isClass ? `[class ${value.name || "(anonymous)"}]` : value.name ? `[Function: ${value.name}]` : "[Function (anonymous)]";
            }
        }
        if (value instanceof Date) return mark("typed", Number.isNaN(value.getTime()) ? "Invalid Date" : `ISODate('${value.toISOString()}')`);
        if (value instanceof RegExp) return mark("typed", cairn.unmarked(String(value)));
        if (value instanceof Error) return cairn.unmarked(cairn.errorText(value));
        const shown = value["\0shown"];
        if (typeof shown !== "function") return undefined;
        const text = shown(value);
        // Code may have variables, which are marked by themselves.
        return lengthOf(text) === text.length ? mark("typed", text) : text;
    }

    // The items of long arrays stand in columns, in about the shape that a person would give them: the wider the items are
    // and the more their widths differ, the fewer columns.
    function columns(items, isNumbers, indent) {
        const widest = Math.max(...items.map(lengthOf));
        const cell = widest + GAP;
        const mean = items.reduce((sum, item) => sum + lengthOf(item) + GAP, 0) / items.length;
        if (cell * 3 + indent >= WIDTH || (mean * items.length <= cell * 5 && widest > GROUPED)) return items;
        const weight = Math.max(cell - 3 - Math.sqrt(cell - mean), 1);
        const count = Math.min(Math.round(Math.sqrt((2.5 * items.length) / weight)), Math.floor((WIDTH - indent) / cell), COLUMNS_MAX);
        if (count <= 1) return items;
        const widths = [];
        for (let column = 0; column < count; column += 1) {
            widths.push(Math.max(...items.filter((_, at) => at % count === column).map(lengthOf)) + GAP);
        }
        const lines = [];
        for (let at = 0; at < items.length; at += count) {
            const line = items.slice(at, at + count);
            const last = line.length - 1;
            const cells = line.map((item, column) => {
                const cell = column === last ? item : `${item}, `;
                const width = column === last ? widths[column] - GAP : widths[column];
                return isNumbers ? margin(cell, width) + cell : column === last ? cell : cell + margin(cell, width);
            });
            lines.push(cells.join(""));
        }
        return lines;
    }

    class Inspection {
        constructor(isExpanded) {
            this.above = [];
            this.isExpanded = isExpanded;
        }

        // The text, and how many levels it has.
        value(value, indent) {
            const text = scalar(value);
            if (text !== undefined) return { text, levels: 0 };
            if (this.above.includes(value)) return { text: "[Circular]", levels: 0 };
            const own = typeof value["\0display"] === "function" ? value["\0display"]() : undefined;
            if (own !== undefined) return { text: own, levels: 0 };
            if (this.above.length > DEPTH_MAX && !this.isExpanded) return { text: Array.isArray(value) ? "[Array]" : "[Object]", levels: 0 };
            this.above.push(value);
            try {
                return this.nested(value, indent);
            } finally {
                this.above.pop();
            }
        }

        nested(value, indent) {
            let open = "{";
            let close = "}";
            let items = [];
            let levels = 0;
            const add = (before, inner) => {
                const { text, levels: below } = this.value(inner, indent + 2);
                levels = Math.max(levels, below);
                items.push(before + text);
            };
            const isList = Array.isArray(value) || ArrayBuffer.isView(value);
            if (isList) {
                [open, close] = ["[", "]"];
                if (!Array.isArray(value)) open = `${value.constructor.name}(${value.length}) [`;
                for (let at = 0; at < Math.min(value.length, ITEMS_MAX); at += 1) add("", value[at]);
            } else if (value instanceof Map) {
                open = `Map(${value.size}) {`;
                for (const [name, inner] of value) add(`${this.value(name, indent + 2).text} => `, inner);
            } else if (value instanceof Set) {
                open = `Set(${value.size}) {`;
                for (const inner of value) add("", inner);
            } else {
                const prototype = Object.getPrototypeOf(value);
                const name = prototype && prototype !== Object.prototype && prototype.constructor ? prototype.constructor.name : "";
                if (name) open = `${name} {`;
                if (prototype === null) open = "[Object: null prototype] {";
                for (const field of cairn.fields(value)) add(`${mark("name", nameOf(field))}: `, value[field]);
            }
            if (items.length === 0 && !(isList && value.length > 0)) return { text: open + close, levels: 0 };
            const count = items.length;
            if (isList && count > GROUPED && !this.isExpanded) items = columns(items, Array.from(value).slice(0, ITEMS_MAX).every((item) => typeof item === "number" || typeof item === "bigint"), indent);
            if (isList && value.length > ITEMS_MAX) {
                const more = value.length - ITEMS_MAX;
                items.push(`... ${more} more item${more > 1 ? "s" : ""}`);
            }
            // Columns are lines already.
            if (levels < LEVELS_ON_A_LINE && items.length === count && !this.isExpanded) {
                const length = items.reduce((sum, item) => sum + lengthOf(item), items.length + open.length + indent);
                if (length + items.length + FRAME <= WIDTH && !items.some((item) => item.includes("\n"))) {
                    return { text: `${open} ${items.join(", ")} ${close}`, levels: levels + 1 };
                }
            }
            const before = " ".repeat(indent);
            return { text: `${open}\n${before}  ${items.join(`,\n${before}  `)}\n${before}${close}`, levels: levels + 1 };
        }
    }

    cairn.inspect = (value) => new Inspection(false).value(value, 0).text;
    cairn.expanded = (value) => new Inspection(true).value(value, 0).text;

    // The names of an object's fields, in the order that they have in the store.
    cairn.fields = function (object) {
        const names = Object.keys(object);
        const stored = object["\0order"];
        if (!stored) return names;
        const present = new Set(names);
        const first = stored.filter((name) => present.delete(name));
        return first.concat(names.filter((name) => present.has(name)));
    };
})
