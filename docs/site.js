// A button on each block of code that copies it, without the prompts of a console.
document.addEventListener("DOMContentLoaded", () => {
  const chinese = document.documentElement.lang.startsWith("zh");
  const [copy, copied, failed] = chinese ? ["复制", "已复制", "请手动选择"] : ["Copy", "Copied", "Select it"];

  for (const block of document.querySelectorAll("div.highlight")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = copy;
    button.addEventListener("click", async () => {
      const code = block.querySelector("pre").textContent.replace(/^\$ /gm, "").trimEnd();
      try {
        await navigator.clipboard.writeText(code);
        button.textContent = copied;
      } catch {
        button.textContent = failed;
      }
      setTimeout(() => (button.textContent = copy), 1500);
    });
    block.append(button);
  }
});
