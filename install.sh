#!/bin/sh
# Installs gpusetup: verifies its signatures and checksum, then installs the package of this system, or the files below a prefix.
#   sh install.sh [--version V] [--prefix DIR] [--dry-run] [--skip-signature]
# GPUSETUP_MIRROR: the address of the releases (it has latest/download/ and download/vVERSION/), or a folder with the files of one.
set -eu

# `cargo xtask dist` fills these in: where the releases are, and the list of the minisign keys that sign them: its form and version, how
# many of the keys must have signed, and the keys. A newer list counts if this one's keys and its own signed it (release-keys).
releases=
keys=
known=/var/lib/gpusetup-database/release-keys # where gpusetup keeps the lists that it has followed

main() {
	version='' prefix='' dry='' skip='' staging='' made=''
	while [ $# -gt 0 ]; do
		case $1 in --version | --prefix) [ -n "${2-}" ] || usage ;; esac
		case $1 in
		--version) version=$2 && shift ;;
		--version=?*) version=${1#*=} ;;
		--prefix) prefix=$2 && shift ;;
		--prefix=?*) prefix=${1#*=} ;;
		--dry-run) dry=yes ;;
		--skip-signature) skip=yes ;;
		*) [ "$1" != --help ] || usage 0 && usage ;;
		esac
		shift
	done
	version=${version#v}
	case $version in *[!0-9A-Za-z.+-]*) usage ;; esac
	case $prefix in '' | /*) ;; *) usage ;; esac
	from=${GPUSETUP_MIRROR:-$releases}
	case $from in
	'') fail 'no address to install from' 'GPUSETUP_MIRROR=https://mirror.example/gpusetup sh install.sh' ;;
	file://*) from=${from#file://} ;;
	/* | *://*) ;;
	*) from=$PWD/$from ;;
	esac
	# A password is for nobody to read, neither one with a slash in it nor that of an address which is misspelt.
	origin=$(printf '%s\n' "$from" | sed -e 's,//[^/]*@,//,' -e t -e 's,//[^/:[]*:[0-9]*[^0-9/].*@,//,')
	case $from in *://*) ;; *) [ -d "$from" ] || fail 'GPUSETUP_MIRROR is neither a folder nor an address with ://' ;; esac
	sudo="sudo env GPUSETUP_MIRROR='$origin' sh install.sh"
	[ -n "$version" ] && at=download/v$version || at=latest/download
	latest=$from
	case $from in *://*) latest=${from%/}/latest/download from=${from%/}/$at ;; esac
	arch=$(uname -m)
	case $(uname -s)-$arch in
	Linux-x86_64) deb=amd64 ;;
	Linux-aarch64) deb=arm64 ;;
	Linux-ppc64le) deb=ppc64el ;;
	*) fail "there is no gpusetup for $(uname -s) on $arch" ;;
	esac
	for tool in date find grep gzip mktemp sed sha256sum sort tar; do have $tool || fail "$tool is missing: install it first"; done
	unset TAR_OPTIONS GZIP
	umask 022
	work=$(mktemp -d) || fail 'no temporary folder can be made' 'TMPDIR=/var/tmp sh install.sh'
	work=$(cd "$work" && pwd -P)
	trap 'rm -rf "$work" ${staging:+"$staging"}; rmdir ${made:+"$made"} 2>/dev/null || :' EXIT
	trap 'exit 130' HUP INT QUIT TERM
	private_path "$work"

	fetch SHA256SUMS
	verify_signatures
	entry="s/^[0-9a-f]\{64\}  gpusetup-\(${version:-[0-9][0-9A-Za-z.+]*}\)-$arch-linux\.tar\.gz\$/\1/p"
	offered=$(sed -n "$entry" "$work/SHA256SUMS" | sort -u)
	[ -n "$offered" ] || fail "SHA256SUMS is incomplete, or has no gpusetup ${version:+$version }for $arch"
	[ "$(echo "$offered" | wc -l)" -eq 1 ] || fail 'SHA256SUMS has several versions' 'sh install.sh --version V'
	if [ -n "$prefix" ]; then way=files
	elif have dpkg && have apt-get && [ -e /var/lib/dpkg/status ]; then way=apt
	elif have rpm && { [ -d /var/lib/rpm ] || [ -d /usr/lib/sysimage/rpm ]; }; then way=rpm
	else way=files; fi
	case $way in
	apt) file=gpusetup_$offered-1_$deb.deb ;;
	rpm) file=gpusetup-$offered-1.$arch.rpm ;;
	*) file=gpusetup-$offered-$arch-linux.tar.gz prefix=${prefix:-/usr/local} ;;
	esac
	sum=$(sed -n "s/^\([0-9a-f]\{64\}\)  $file\$/\1/p" "$work/SHA256SUMS" | head -n 1)
	[ -n "$sum" ] || fail "SHA256SUMS does not list $file"
	[ -z "$dry" ] || { say "would install gpusetup $offered: $file from $origin${prefix:+, below $prefix}" && exit 0; }
	[ $way = files ] || [ "$(id -u)" = 0 ] || fail 'only root installs packages' "$sudo, or --prefix ~/.local"
	fetch "$file"
	(cd "$work" && echo "$sum  $file" | sha256sum -c >/dev/null 2>&1) ||
		fail "$file is not what SHA256SUMS says: it was damaged on its way, or changed"
	install_$way
}

# Everything is unpacked beside its place first: a full disk leaves what was there. The script goes into the prefix and stays there: what
# becomes of its name meanwhile does not matter.
install_files() {
	private_path "$prefix"
	if [ ! -d "$prefix" ]; then mkdir "$prefix" 2>/dev/null || fail "$prefix cannot be made" "$sudo"; made=$prefix; fi
	cd -P "$prefix" || fail "$prefix cannot be entered"
	private_path "$(pwd -P)"
	staging=$(mktemp -d ./.gpusetup-XXXXXX 2>/dev/null) || fail "$prefix cannot be written" "$sudo --prefix $prefix"
	tar -xzf "$work/$file" -C "$staging" --no-same-owner || fail "$file cannot be unpacked below $prefix" "df -h $prefix"
	tree=$staging/gpusetup-$offered-$arch-linux receipt=share/gpusetup/receipt
	"$tree/bin/gpusetup" --version >/dev/null || fail "the program of $file does not run here" 'ldd --version'
	mkdir -p "$tree/share/gpusetup"
	for path in $(cd "$tree" && find . -type d | sed -n 's,^\./,,p' | sort); do
		[ ! -L "$path" ] || fail "$prefix/$path is a link" "$sudo --prefix DIR"
		[ ! -e "$path" ] || private "$path"
	done
	# What is there is not asked for its version: whoever put it there would be asked.
	old=''
	[ ! -f $receipt ] || old=$(sed -n 's/^version \([0-9][0-9A-Za-z.+]*\)$/\1/p' $receipt | head -n 1)
	newest=$(printf '%s\n' "$offered" "${old:-$offered}" | sort -V | tail -n 1)
	[ -n "$version" ] || [ "$newest" = "$offered" ] || fail "gpusetup $old is installed" "sh install.sh --version $offered"
	files=$(cd "$tree" && find . -type f | sed 's,^\./,,' | grep -v '^bin/' | sort)
	printf '%s\n' gpusetup.receipt/1 "version $offered" "from $origin" >"$tree/$receipt"
	# The receipt first, so that what is half installed can be removed; the program last, so that the old one works until then.
	for path in $receipt $files bin/gpusetup; do echo "file $path"; done >>"$tree/$receipt"
	for path in $receipt $files bin/gpusetup; do
		mkdir -p "${path%/*}" || fail "$prefix/${path%/*} cannot be made"
		[ ! -d "$path" ] || fail "$prefix/$path is a folder"
		mv -f "$tree/$path" "$path" || fail "$prefix/$path cannot be written"
	done
	say "installed gpusetup $offered: $prefix/bin/gpusetup"
	case :$PATH: in *:"$prefix/bin":*) ;; *) say "not on PATH yet: export PATH=\"$prefix/bin:\$PATH\"" ;; esac
}
# Root keeps and runs nothing where others own a folder or may write to it; above it they may in a sticky one, such as /tmp. A link that
# leads there counts as well.
private_path() {
	private "$1" && above=$1
	while [ "$above" != / ]; do above=${above%/*} && above=${above:-/} && private "$above" '! -perm -1000'; done
}
private() {
	[ "$(id -u)" = 0 ] || return 0
	# shellcheck disable=SC2086 # several words, or none
	[ -z "$(find "$1" -prune '(' ! -user 0 -o ! -type l ${2-} '(' -perm -020 -o -perm -002 ')' ')' -print 2>/dev/null)" ] ||
		fail "others than root own $1 or may write to it, so root puts nothing there" 'sh install.sh --prefix DIR, without sudo'
}
# An older version than what is installed must be asked for: the package managers refuse it, too.
install_apt() {
	chmod 755 "$work" # apt's own user reads the file
	DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confdef \
		-o Dpkg::Options::=--force-confold ${version:+--allow-downgrades} install "$work/$file" </dev/null >"$work/log" 2>&1 ||
		{ tail -n 20 "$work/log" >&2 && fail "apt-get could not install $file"; }
	say "installed gpusetup $offered with apt-get"
}
install_rpm() {
	rpm -U --replacepkgs ${version:+--oldpackage} "$work/$file" || fail "rpm could not install $file" "$sudo --prefix /usr/local"
	say "installed gpusetup $offered with rpm"
}
# fetch NAME: brings a file of the release.
fetch() {
	bring "$from" "$1" && return
	not_too_large "$1" && fail "$1 could not be fetched from $origin" "df -h ${TMPDIR:-/tmp}, or another GPUSETUP_MIRROR"
}
# No more than what gpusetup itself reads of such a file is written: what curl and wget limit, a server need not tell them.
bring() {
	case $2 in *.minisig) most=8192 ;; SHA256SUMS | release-keys) most=65536 ;; *) most=67108864 ;; esac
	(
		trap '' XFSZ # an error, as of a full disk
		ulimit -f $((most / 512)) || :
		case $1 in
		*://*) if have curl; then
			curl -gfsSL --proto "=${1%%:*}" --retry 2 --connect-timeout 30 --speed-limit 1 --speed-time 60 -o "$work/$2" "$1/$2"
		else wget -q -T 60 -t 3 -O "$work/$2" "$1/$2"; fi ;;
		*) cp "$1/$2" "$work/$2" ;;
		esac
	) && [ "$(wc -c <"$work/$2")" -le "$most" ] # some shells count by 1024 bytes
}
not_too_large() {
	[ ! -e "$work/$1" ] || [ "$(wc -c <"$work/$1")" -lt "$most" ] ||
		fail "$1 of $origin is larger than $((most / 1024)) KiB, the limit for such a file" 'another GPUSETUP_MIRROR'
}
# The checksums are worth as much as their signatures. What nothing here can verify comes by https or not at all, and only if that was asked for.
verify_signatures() {
	verifier='' why='there is neither minisign nor OpenSSL 3 here' fix='install minisign, or OpenSSL 3'
	if have minisign; then verifier=minisign
	elif openssl pkeyutl -help 2>&1 | grep -q rawin; then verifier=openssl
	elif have apt-get; then fix='sudo apt-get install minisign'
	elif have zypper; then fix='sudo zypper install minisign'
	elif have dnf; then fix='sudo dnf install openssl, or minisign from EPEL: sudo dnf install epel-release && sudo dnf install minisign'; fi
	[ -n "$keys" ] || { verifier='' why='this install.sh has no release keys' fix='take install.sh from a release'; }
	if [ -z "$verifier" ]; then
		case $skip-$from in
		yes-https://*) have curl || fail '--skip-signature needs curl, which stays with https' "$fix" ;; # wget may be sent on to http
		yes-*) fail "the signature cannot be verified: $why; --skip-signature is for https:// only" "$fix" ;;
		*-https://*) fail "the signature cannot be verified: $why" "$fix; or trust the server alone: sh install.sh --skip-signature" ;;
		*) fail "the signature cannot be verified: $why" "$fix" ;;
		esac
		say "warning: the signature is not verified: $why" >&2 && return
	fi
	today=$(date -u +%Y%m%d)
	[ ! -r $known ] || follow $known $known
	if bring "$latest" release-keys 2>/dev/null; then follow "$work/release-keys" "release-keys of $origin"; else not_too_large release-keys; fi
	fetch SHA256SUMS.minisig
	signed_by SHA256SUMS "$keys" && return
	[ -z "$expired" ] || fail "the release at $origin expired on $expired: it is an old one, or nobody has signed it since" \
		'another GPUSETUP_MIRROR, or sh install.sh --version V'
	fail "SHA256SUMS has $valid signatures by release keys, and needs $needed" 'another GPUSETUP_MIRROR'
}
# follow FILE NAME: goes from the trusted list of keys to the newest one in a file of lists, each followed by its signatures. A line ends
# with a line feed alone, in crates/database/src/signed.rs as well.
follow() {
	rm -f "$work"/release-keys-* && list='' last=0
	while IFS= read -r line || [ -n "$line" ]; do
		case $line in
		gpusetup.keys/*)
			is_list "$line" || fail "$2 has a list of release keys that this install.sh cannot read" 'take install.sh from the newest release'
			last=${line#* } && last=${last%% *} && list=$work/release-keys-$last
			printf '%s\n' "$line" >"$list" && : >"$list.minisig" ;;
		*)
			[ -n "$list" ] || fail "$2 begins with something else than a list of release keys"
			printf '%s\n' "$line" >>"$list.minisig" ;;
		esac
	done <"$1"
	at=${keys#* } && at=${at%% *}
	[ ! -e "$work/release-keys-$at" ] || [ "$(cat "$work/release-keys-$at")" = "$keys" ] || fail "$2 has another list $at of release keys"
	while [ "$at" -lt "$last" ]; do
		at=$((at + 1))
		next=$(cat "$work/release-keys-$at" 2>/dev/null) || fail "$2 lacks list $at of the release keys"
		{ signed_by "release-keys-$at" "$keys" && signed_by "release-keys-$at" "$next"; } ||
			fail "$2: list $at of the release keys has $valid signatures by keys of list $((at - 1)) or its own, and needs $needed"
		keys=$next
	done
}
is_list() { printf '%s\n' "$1" | grep -Eq '^gpusetup\.keys/1 [1-9][0-9]{0,3} [1-9]( RW[QRST][0-9A-Za-z+/]{53}){1,9}$'; }
# signed_by NAME LIST: whether enough keys of a list signed a file under its name. Sets `valid`, `needed` and `expired`.
signed_by() {
	name=$1 valid=0 expired=''
	needed=${2#* * } && needed=${needed%% *}
	# shellcheck disable=SC2086 # a word for each key
	for key in $(printf '%s\n' ${2#* * * } | sort -u); do ! key_signed || valid=$((valid + 1)); done
	[ "$valid" -ge "$needed" ]
}
# Of a signature's four lines the second has it, and the third what was signed with it: the file's name and the last day, by tabs. The
# first 20 signatures are read, here and in crates/database/src/signed.rs.
key_signed() {
	line=1 lines=$(wc -l <"$work/$name.minisig")
	while [ "$line" -le "$lines" ] && [ "$line" -lt $((20 * 4)) ]; do
		sed -n "$line,$((line + 3))p" "$work/$name.minisig" >"$work/one" || fail "$work cannot be written" "df -h $work"
		line=$((line + 4))
		! grep -q "$(printf '\r')" "$work/one" || continue
		signature=$(sed -n '2p' "$work/one") comment=$(sed -n '3s/^trusted comment: //p' "$work/one")
		case $signature in RU[QRST]*) ;; *) continue ;; esac # of a hash, as minisign makes them
		# minisign reads a comment up to a carriage return: what is behind it is not signed.
		[ "$comment" = "$(printf %s "$comment" | tr -d '\001-\010\012-\037\177')" ] || continue
		fields=$(printf '%s\n' "$comment" | tr '\t' '\n')
		[ "$(printf '%s\n' "$fields" | grep '^file:')" = "file:$name" ] || continue
		by_$verifier || continue
		day=$(printf '%s\n' "$fields" | grep '^expires:') || return 0
		[ -z "$version" ] || return 0 # whoever names a release may mean an old one
		day=${day#expires:} # of two days neither counts
		[ "$(printf '%s\n' "$day" | sed -n '1{$s/^\([0-9]\{4\}\)-\([0-9][0-9]\)-\([0-9][0-9]\)$/\1\2\3/p;}' | grep . || echo 0)" -lt "$today" ] || return 0
		expired=$(printf '%s\n' "$day" | head -n 1) && expired=${expired:-"a day that is not known"}
	done
	return 1
}
by_minisign() { minisign -Vq -P "$key" -m "$work/$name" -x "$work/one" >/dev/null 2>&1; }
by_openssl() {
	{ printf '\060\052\060\005\006\003\053\145\160\003\041\000' && decoded "$key" | tail -c 32; } >"$work/key"
	openssl dgst -blake2b512 -binary "$work/$name" >"$work/text" 2>/dev/null && decoded "$signature" | tail -c 64 >"$work/raw" && ed25519 || return 1
	{ cat "$work/raw" && printf %s "$comment"; } >"$work/text" && decoded "$(sed -n '4p' "$work/one")" >"$work/raw" && ed25519
}
ed25519() { openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key" -rawin -in "$work/text" -sigfile "$work/raw" >/dev/null 2>&1; }
decoded() { printf '%s\n' "$1" | openssl base64 -d -A; }
have() { command -v "$1" >/dev/null 2>&1; }
say() { printf 'gpusetup: %s\n' "$*"; }
fail() { say "$1" >&2 && { [ -z "${2-}" ] || printf '  try: %s\n' "$2" >&2; } && exit 1; }
usage() { echo 'usage: sh install.sh [--version V] [--prefix /DIR] [--dry-run] [--skip-signature]' >&2 && exit "${1:-2}"; }

# At the end, so that half a script does nothing.
main "$@"
