// BSON's types that JavaScript does not have, under the names that mongosh gives them.
//
// The tool reads a value by two hidden properties of its prototype: its kind, and what it consists of. Their names begin with
// a NUL, which no field of a document can have.
(function (cairn, native) {
    "use strict";

    const KIND = "\0kind";
    const PARTS = "\0parts";

    function hide(object, name, value) {
        Object.defineProperty(object, name, { value, writable: true, configurable: true, enumerable: false });
    }

    // Tells the tool what the objects of a class are. `parts` is called with an object.
    function declare(prototype, kind, parts) {
        hide(prototype, KIND, kind);
        Object.defineProperty(prototype, PARTS, { get() { return parts(this); }, configurable: true });
    }

    // A class whose objects are made with and without `new`, with a text that makes the same value again.
    function type(kind, options) {
        const { make, parts, shown, methods = {}, fixed = {}, parent } = options;
        const made = function (...given) {
            const object = Object.create(new.target && new.target.prototype !== undefined ? new.target.prototype : made.prototype);
            make(object, ...given);
            return object;
        };
        Object.defineProperty(made, "name", { value: options.name || kind });
        if (parent) Object.setPrototypeOf(made.prototype, parent.prototype);
        declare(made.prototype, kind, parts);
        hide(made.prototype, "_bsontype", options.bson || kind);
        hide(made.prototype, "\0shown", shown);
        for (const [name, method] of Object.entries(methods)) hide(made.prototype, name, method);
        for (const [name, value] of Object.entries(fixed)) hide(made, name, value);
        hide(made.prototype, "constructor", made);
        return made;
    }

    function quoted(text) {
        return cairn.quoted(String(text));
    }

    function fail(message) {
        throw new TypeError(message);
    }

    // A whole number within bits, whatever it is given as.
    function whole(name, given, bits, otherwise) {
        if (given === undefined || given === null) return otherwise;
        let number;
        try {
            const plain = given instanceof Long ? given.value : typeof given === "object" ? given.valueOf() : given;
            number = typeof plain === "number" ? BigInt(Math.trunc(plain)) : BigInt(plain);
        } catch {
            fail(`${name} needs a whole number, and not ${cairn.inspect(given)}`);
        }
        if (BigInt.asIntN(bits, number) !== number) fail(`${name} has ${bits} bits, too few for ${number}`);
        return number;
    }

    // ---- bytes

    const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    function toBase64(bytes) {
        let text = "";
        for (let at = 0; at < bytes.length; at += 3) {
            const left = bytes.length - at;
            const group = (bytes[at] << 16) | ((bytes[at + 1] || 0) << 8) | (bytes[at + 2] || 0);
            text += DIGITS[group >> 18] + DIGITS[(group >> 12) & 63];
            text += left > 1 ? DIGITS[(group >> 6) & 63] : "=";
            text += left > 2 ? DIGITS[group & 63] : "=";
        }
        return text;
    }

    function fromBase64(text) {
        const digits = text.replace(/-/g, "+").replace(/_/g, "/").replace(/=+$/, "");
        if (!/^[A-Za-z0-9+/]*$/.test(digits) || digits.length % 4 === 1) fail(`${quoted(text)} is not base64`);
        const bytes = [];
        for (let at = 0; at < digits.length; at += 4) {
            const group = [0, 1, 2, 3].map((step) => DIGITS.indexOf(digits[at + step] || "A"));
            const three = (group[0] << 18) | (group[1] << 12) | (group[2] << 6) | group[3];
            const count = Math.min(3, Math.floor(((digits.length - at) * 6) / 8));
            bytes.push(...[three >> 16, (three >> 8) & 255, three & 255].slice(0, count));
        }
        return Uint8Array.from(bytes);
    }

    function toHex(bytes) {
        return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    }

    function fromHex(text) {
        if (!/^([0-9a-fA-F]{2})*$/.test(text)) fail(`${quoted(text)} is not an even number of hexadecimal digits`);
        return Uint8Array.from(text.match(/../g) || [], (two) => parseInt(two, 16));
    }

    // ---- ObjectId

    const ObjectId = type("ObjectId", {
        make(object, given) {
            let hex;
            if (given === undefined || given === null) {
                hex = native.objectId();
            } else if (typeof given === "number") {
                hex = (given >>> 0).toString(16).padStart(8, "0") + native.objectId().slice(8);
            } else if (given instanceof Uint8Array && given.length === 12) {
                hex = toHex(given);
            } else {
                hex = String(given);
            }
            if (!/^[0-9a-fA-F]{24}$/.test(hex)) {
                fail(`an ObjectId has 24 hexadecimal digits, and not ${quoted(hex)}`);
            }
            hide(object, "hex", hex.toLowerCase());
        },
        parts: (object) => object.hex,
        shown: (object) => `ObjectId('${object.hex}')`,
        methods: {
            toString() { return this.hex; },
            toHexString() { return this.hex; },
            toJSON() { return this.hex; },
            equals(other) { return other instanceof ObjectId && other.hex === this.hex; },
            getTimestamp() { return new Date(parseInt(this.hex.slice(0, 8), 16) * 1000); },
        },
        fixed: {
            isValid(given) { return given instanceof ObjectId || (typeof given === "string" && /^[0-9a-fA-F]{24}$/.test(given)); },
            createFromHexString(hex) { return new ObjectId(String(hex)); },
            createFromTime(seconds) { return new ObjectId((seconds >>> 0).toString(16).padStart(8, "0") + "0".repeat(16)); },
        },
    });

    // ---- numbers

    const Int32 = type("Int32", {
        make(object, given) { hide(object, "value", Number(whole("Int32", given, 32, 0n))); },
        parts: (object) => object.value,
        shown: (object) => `Int32(${object.value})`,
        methods: {
            valueOf() { return this.value; },
            toString(base) { return this.value.toString(base); },
            toJSON() { return this.value; },
        },
    });

    const Double = type("Double", {
        make(object, given) {
            const number = Number(given === undefined ? 0 : given);
            if (Number.isNaN(number) && !/^\s*[+-]?nan\s*$/i.test(String(given))) fail(`Double needs a number, and not ${cairn.inspect(given)}`);
            hide(object, "value", number);
        },
        parts: (object) => object.value,
        shown: (object) => `Double(${Object.is(object.value, -0) ? "-0" : object.value})`,
        methods: {
            valueOf() { return this.value; },
            toString(base) { return this.value.toString(base); },
            toJSON() { return this.value; },
        },
    });

    const longOf = (number) => new Long(BigInt.asIntN(64, number));
    const bigOf = (given) => whole("Long", given, 64, 0n);
    const longMethods = {
        toString(base) { return this.value.toString(base); },
        // No `valueOf`, as in mongosh: a sum of a Long and a number would lose digits without a word.
        toJSON() { return { low: this.low, high: this.high, unsigned: false }; },
        toNumber() { return Number(this.value); },
        toInt() { return Number(BigInt.asIntN(32, this.value)); },
        toBigInt() { return this.value; },
        equals(other) { return this.value === bigOf(other); },
        compare(other) { const right = bigOf(other); return this.value < right ? -1 : this.value > right ? 1 : 0; },
        isZero() { return this.value === 0n; },
        isNegative() { return this.value < 0n; },
        negate() { return longOf(-this.value); },
        lessThan(other) { return this.compare(other) < 0; },
        lessThanOrEqual(other) { return this.compare(other) <= 0; },
        greaterThan(other) { return this.compare(other) > 0; },
        greaterThanOrEqual(other) { return this.compare(other) >= 0; },
        add(other) { return longOf(this.value + bigOf(other)); },
        subtract(other) { return longOf(this.value - bigOf(other)); },
        multiply(other) { return longOf(this.value * bigOf(other)); },
        divide(other) { return longOf(this.value / bigOf(other)); },
        modulo(other) { return longOf(this.value % bigOf(other)); },
    };
    const longNames = {
        eq: "equals", lt: "lessThan", lte: "lessThanOrEqual", gt: "greaterThan", gte: "greaterThanOrEqual",
        sub: "subtract", mul: "multiply", div: "divide", mod: "modulo", neg: "negate",
    };
    for (const [short, long] of Object.entries(longNames)) longMethods[short] = longMethods[long];
    const Long = type("Long", {
        make(object, given, high) {
            // Two numbers are the lower and the upper 32 bits.
            const number = typeof given === "number" && typeof high === "number"
                ? (BigInt(high | 0) << 32n) | BigInt(given >>> 0)
                : whole("Long", given, 64, 0n);
            hide(object, "value", number);
        },
        parts: (object) => object.value,
        shown: (object) => `Long('${object.value}')`,
        methods: longMethods,
        fixed: {
            fromNumber: (number) => new Long(number),
            fromString: (text) => new Long(text),
            fromInt: (number) => new Long(number),
            fromBigInt: (number) => new Long(number),
            fromBits: (low, high) => new Long(low, high),
            isLong: (given) => given instanceof Long,
        },
    });
    for (const [name, value] of [["ZERO", 0n], ["ONE", 1n], ["MAX_VALUE", 2n ** 63n - 1n], ["MIN_VALUE", -(2n ** 63n)]]) {
        hide(Long, name, new Long(value));
    }
    Object.defineProperty(Long.prototype, "low", { get() { return Number(BigInt.asIntN(32, this.value)); }, configurable: true });
    Object.defineProperty(Long.prototype, "high", { get() { return Number(this.value >> 32n); }, configurable: true });

    const Decimal128 = type("Decimal128", {
        make(object, given) {
            const text = native.decimal(String(given === undefined ? "0" : given));
            if (text === undefined) fail(`${quoted(given)} is not a decimal number of at most 34 digits`);
            hide(object, "text", text);
        },
        parts: (object) => object.text,
        shown: (object) => `Decimal128('${object.text}')`,
        methods: {
            toString() { return this.text; },
            toJSON() { return { $numberDecimal: this.text }; },
        },
        fixed: { fromString: (text) => new Decimal128(text) },
    });

    // ---- binary data

    const UUID_SUBTYPE = 4;
    const grouped = (hex) => [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");

    function bytesOf(given) {
        if (given === undefined) return new Uint8Array(0);
        if (typeof given === "string") return fromBase64(given);
        if (given instanceof ArrayBuffer) return new Uint8Array(given);
        if (ArrayBuffer.isView(given)) return new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
        if (Array.isArray(given)) return Uint8Array.from(given);
        return fail(`Binary needs bytes, and not ${cairn.inspect(given)}`);
    }

    const Binary = type("Binary", {
        make(object, given, subtype = 0) {
            if (!Number.isInteger(subtype) || subtype < 0 || subtype > 255) fail(`a binary subtype is a number from 0 to 255, and not ${subtype}`);
            hide(object, "buffer", bytesOf(given));
            hide(object, "sub_type", subtype);
        },
        parts: (object) => [object.sub_type, toBase64(object.buffer)],
        shown: (object) => (object.sub_type === UUID_SUBTYPE && object.buffer.length === 16
            ? `UUID('${grouped(toHex(object.buffer))}')`
            : `Binary.createFromBase64('${toBase64(object.buffer)}', ${object.sub_type})`),
        methods: {
            length() { return this.buffer.length; },
            base64() { return toBase64(this.buffer); },
            hex() { return toHex(this.buffer); },
            subtype() { return this.sub_type; },
            toString(encoding = "utf8") {
                if (encoding === "hex") return toHex(this.buffer);
                if (encoding === "base64") return toBase64(this.buffer);
                if (encoding !== "utf8") fail(`the encoding ${quoted(encoding)} is not hex, base64 or utf8`);
                return native.text(toBase64(this.buffer));
            },
            toJSON() { return toBase64(this.buffer); },
            toUUID() {
                if (this.sub_type !== UUID_SUBTYPE) fail(`Binary of subtype ${this.sub_type} is not a UUID`);
                return new UUID(toHex(this.buffer));
            },
            equals(other) { return other instanceof Binary && other.sub_type === this.sub_type && toHex(other.buffer) === toHex(this.buffer); },
        },
        fixed: {
            createFromBase64: (text, subtype = 0) => new Binary(fromBase64(text), subtype),
            createFromHexString: (hex, subtype = 0) => new Binary(fromHex(hex), subtype),
        },
    });

    const UUID = type("Binary", {
        name: "UUID",
        parent: Binary,
        make(object, given) {
            let hex;
            if (given === undefined) {
                hex = native.uuid();
            } else {
                hex = typeof given === "string" ? given.replace(/-/g, "") : toHex(bytesOf(given));
                if (!/^[0-9a-fA-F]{32}$/.test(hex)) fail(`a UUID has 32 hexadecimal digits, and not ${quoted(given)}`);
            }
            hide(object, "buffer", fromHex(hex));
            hide(object, "sub_type", UUID_SUBTYPE);
        },
        parts: (object) => [UUID_SUBTYPE, toBase64(object.buffer)],
        shown: (object) => `UUID('${grouped(toHex(object.buffer))}')`,
        methods: {
            toString() { return grouped(toHex(this.buffer)); },
            toHexString() { return grouped(toHex(this.buffer)); },
            toJSON() { return grouped(toHex(this.buffer)); },
        },
        fixed: { generate: () => new UUID() },
    });

    // ---- what is left

    const Timestamp = type("Timestamp", {
        make(object, given, increment) {
            let seconds = given;
            let count = increment;
            if (given !== null && typeof given === "object" && "t" in given) {
                seconds = given.t;
                count = given.i;
            } else if (typeof given === "bigint" || given instanceof Long) {
                const number = BigInt.asUintN(64, given instanceof Long ? given.value : given);
                seconds = Number(number >> 32n);
                count = Number(number & 0xffffffffn);
            }
            for (const [name, number] of [["t", seconds], ["i", count]]) {
                const plain = Number(number === undefined ? 0 : number);
                if (!Number.isInteger(plain) || plain < 0 || plain > 0xffffffff) fail(`${name} of a Timestamp is a whole number of 32 bits, and not ${number}`);
                hide(object, name, plain);
            }
        },
        parts: (object) => [object.t, object.i],
        shown: (object) => `Timestamp({ t: ${object.t}, i: ${object.i} })`,
        methods: {
            getHighBits() { return this.t; },
            getLowBits() { return this.i; },
            toString() { return ((BigInt(this.t) << 32n) | BigInt(this.i)).toString(); },
            toJSON() { return { $timestamp: this.toString() }; },
        },
    });

    const MinKey = type("MinKey", { make() {}, parts: () => 1, shown: () => "MinKey()" });
    const MaxKey = type("MaxKey", { make() {}, parts: () => 1, shown: () => "MaxKey()" });
    // As in mongosh, the names alone are the values too.
    declare(MinKey, "MinKey", () => 1);
    declare(MaxKey, "MaxKey", () => 1);

    const Code = type("Code", {
        make(object, code, scope) {
            object.code = String(code === undefined ? "" : code);
            object.scope = scope === undefined ? null : scope;
        },
        parts: (object) => [object.code, object.scope],
        shown: (object) => (object.scope ? `Code(${quoted(object.code)}, ${cairn.inspect(object.scope)})` : `Code(${quoted(object.code)})`),
        methods: { toJSON() { return this.scope ? { code: this.code, scope: this.scope } : { code: this.code }; } },
    });

    const BSONRegExp = type("BSONRegExp", {
        make(object, pattern, options) {
            object.pattern = String(pattern === undefined ? "" : pattern);
            object.options = Array.from(String(options === undefined ? "" : options)).sort().join("");
            const unknown = object.options.match(/[^ilmsux]/);
            if (unknown) fail(`a regular expression has no option ${quoted(unknown[0])}`);
        },
        parts: (object) => [object.pattern, object.options],
        shown: (object) => `BSONRegExp(${quoted(object.pattern)}, ${quoted(object.options)})`,
    });

    const BSONSymbol = type("BSONSymbol", {
        make(object, text) { object.value = String(text === undefined ? "" : text); },
        parts: (object) => object.value,
        shown: (object) => `BSONSymbol(${quoted(object.value)})`,
        methods: { valueOf() { return this.value; }, toString() { return this.value; }, toJSON() { return this.value; } },
    });

    function DBRef(collection, id, database, fields) {
        const reference = { $ref: collection, $id: id };
        if (database !== undefined && database !== null) reference.$db = database;
        return Object.assign(reference, fields);
    }

    function ISODate(text) {
        if (text === undefined) return new Date();
        let written = String(text).trim();
        // Forms that older shells took: without separators, and with a space before the time.
        const parts = /^(\d{4})-?(\d{2})-?(\d{2})(?:[T ](\d{2})(?::?(\d{2})(?::?(\d{2})(\.\d+)?)?)?(Z|[+-]\d{2}(?::?\d{2})?)?)?$/.exec(written);
        if (parts) {
            const [, year, month, day, hour = "00", minute = "00", second = "00", fraction = "", zone = "Z"] = parts;
            const offset = /^[+-]\d{2}$/.test(zone) ? `${zone}:00` : zone.replace(/^([+-]\d{2})(\d{2})$/, "$1:$2");
            written = `${year}-${month}-${day}T${hour}:${minute}:${second}${fraction.slice(0, 4)}${offset}`;
        }
        const date = new Date(written);
        if (Number.isNaN(date.getTime())) fail(`${quoted(text)} is not a date`);
        return date;
    }

    // What JavaScript has itself.
    // A store's dates reach further than JavaScript's; such a one is invalid here, and keeps what it is.
    declare(Date.prototype, "Date", (date) => date["\0far"] ?? date.getTime());
    // As Node.js's driver writes them, where `g` lets a dot match the end of a line. It forgets `s`, which means just that.
    declare(RegExp.prototype, "RegExp", (regexp) => [regexp.source, (regexp.ignoreCase ? "i" : "") + (regexp.multiline ? "m" : "") + (regexp.global || regexp.dotAll ? "s" : "")]);
    declare(Map.prototype, "Map", (map) => Array.from(map, ([name, value]) => [String(name), value]));
    declare(Number.prototype, "Primitive", (boxed) => Number(boxed));
    declare(String.prototype, "Primitive", (boxed) => String(boxed));
    declare(Boolean.prototype, "Primitive", (boxed) => boxed.valueOf());
    declare(ArrayBuffer.prototype, "Bytes", (buffer) => toBase64(new Uint8Array(buffer)));
    declare(Object.getPrototypeOf(Uint8Array.prototype), "Bytes", (view) => toBase64(bytesOf(view)));

    Object.assign(cairn, { hide, KIND, PARTS, toBase64, fromBase64, toHex, fromHex, Long });
    cairn.types = {
        ObjectId, ObjectID: ObjectId, ISODate, Int32, NumberInt: (given) => new Int32(given), Long,
        NumberLong: (given) => new Long(given), Decimal128, NumberDecimal: (given) => new Decimal128(given), Double, UUID, Binary,
        BinData: (subtype, text) => new Binary(fromBase64(String(text)), subtype),
        HexData: (subtype, hex) => new Binary(fromHex(String(hex)), subtype),
        Timestamp, MinKey, MaxKey, Code, BSONRegExp, BSONSymbol, DBRef,
    };

    // How the tool makes what it has read.
    cairn.makers = {
        // Nearly every document has one, so the tool makes them by itself.
        ObjectIdPrototype: ObjectId.prototype,
        Long: (number) => new Long(number),
        Int32: (number) => new Int32(number),
        Double: (number) => new Double(number),
        Decimal128: (text) => new Decimal128(text),
        Binary: (subtype, text) => {
            const bytes = fromBase64(text);
            return subtype === UUID_SUBTYPE && bytes.length === 16 ? new UUID(bytes) : new Binary(bytes, subtype);
        },
        Date: (milliseconds) => {
            if (typeof milliseconds === "number") return new Date(milliseconds);
            const date = new Date(NaN);
            hide(date, "\0far", milliseconds);
            return date;
        },
        Timestamp: (seconds, increment) => new Timestamp({ t: seconds, i: increment }),
        Code: (code, scope) => new Code(code, scope),
        Symbol: (text) => new BSONSymbol(text),
        MinKey: () => new MinKey(),
        MaxKey: () => new MaxKey(),
        RegExp: (pattern, options) => {
            // JavaScript's expressions lack some of what a store can have.
            try {
                if (!/[^ims]/.test(options)) return new RegExp(pattern, options);
            } catch {
                // It is shown as it is.
            }
            return new BSONRegExp(pattern, options);
        },
    };
})
