"""Looking for what lies beyond the edges of a page."""

BEYOND = """() => [...document.querySelectorAll('#app *')].filter((found) => {
    const box = found.getBoundingClientRect();
    if (!box.width || box.right <= innerWidth + 1 || found.closest('.unseen, svg')) return false;
    for (let around = found.parentElement; around; around = around.parentElement)
        if (['auto', 'scroll'].includes(getComputedStyle(around).overflowX)) return false;
    return true;
}).map((found) => found.outerHTML.slice(0, 120))"""
"""What lies beyond the edge of the screen where nothing can be scrolled."""
